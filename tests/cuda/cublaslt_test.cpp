// The emulation's cuBLASLt beside the real one, in the calls that need no GPU: descriptors. And
// what the emulation's computes.

#include <cstdint>
#include <dlfcn.h>
#include <string>

#include <doctest/doctest.h>

#include "cuda_emulation/fake_cublaslt.hpp"

namespace tape8::test {
namespace {

/// The calls of one library.
struct Calls {
  decltype(&cublasLtMatmulDescCreate) create_description = cublasLtMatmulDescCreate;
  decltype(&cublasLtMatmulDescDestroy) destroy_description = cublasLtMatmulDescDestroy;
  decltype(&cublasLtMatmulDescGetAttribute) get_description = cublasLtMatmulDescGetAttribute;
  decltype(&cublasLtMatmulDescSetAttribute) set_description = cublasLtMatmulDescSetAttribute;
  decltype(&cublasLtMatrixLayoutCreate) create_layout = cublasLtMatrixLayoutCreate;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout = cublasLtMatrixLayoutDestroy;
  decltype(&cublasLtMatrixLayoutGetAttribute) get_layout = cublasLtMatrixLayoutGetAttribute;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference = cublasLtMatmulPreferenceCreate;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference = cublasLtMatmulPreferenceDestroy;
  decltype(&cublasLtMatmulPreferenceGetAttribute) get_preference =
      cublasLtMatmulPreferenceGetAttribute;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference =
      cublasLtMatmulPreferenceSetAttribute;
  decltype(&cublasLtGetStatusName) status_name = cublasLtGetStatusName;
};

/// The real library, or null.
void* real_library() {
  for (const std::string name : {"libcublasLt.so.13", TAPE8_CUDA_LIBRARIES "/libcublasLt.so.13"}) {
    void* const library = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (library != nullptr) return library;
  }
  return nullptr;
}

template <class Function>
void load(void* library, const char* name, Function& function) {
  void* const found = dlsym(library, name);
  REQUIRE_MESSAGE(found != nullptr, name);
  function = reinterpret_cast<Function>(found);
}

Calls calls_of(void* library) {
  Calls calls;
  load(library, "cublasLtMatmulDescCreate", calls.create_description);
  load(library, "cublasLtMatmulDescDestroy", calls.destroy_description);
  load(library, "cublasLtMatmulDescGetAttribute", calls.get_description);
  load(library, "cublasLtMatmulDescSetAttribute", calls.set_description);
  load(library, "cublasLtMatrixLayoutCreate", calls.create_layout);
  load(library, "cublasLtMatrixLayoutDestroy", calls.destroy_layout);
  load(library, "cublasLtMatrixLayoutGetAttribute", calls.get_layout);
  load(library, "cublasLtMatmulPreferenceCreate", calls.create_preference);
  load(library, "cublasLtMatmulPreferenceDestroy", calls.destroy_preference);
  load(library, "cublasLtMatmulPreferenceGetAttribute", calls.get_preference);
  load(library, "cublasLtMatmulPreferenceSetAttribute", calls.set_preference);
  load(library, "cublasLtGetStatusName", calls.status_name);
  return calls;
}

/// What a library says to attempts at an attribute of an object.
struct Answers {
  cublasStatus_t size_status = CUBLAS_STATUS_SUCCESS, value_status = CUBLAS_STATUS_SUCCESS;
  cublasStatus_t no_size_status = CUBLAS_STATUS_SUCCESS, wrong_get = CUBLAS_STATUS_SUCCESS;
  cublasStatus_t wrong_set = CUBLAS_STATUS_SUCCESS, null_set = CUBLAS_STATUS_SUCCESS;
  cublasStatus_t right_set = CUBLAS_STATUS_SUCCESS;
  std::size_t bytes = 0, written = 0;
  std::uint64_t value = 0;
  bool operator==(const Answers&) const = default;
};

template <class Object, class Attribute, class Get>
Answers ask(Object object, int number, const Get& get) {
  const auto attribute = static_cast<Attribute>(number);
  Answers answers;
  answers.size_status = get(object, attribute, nullptr, 0, &answers.bytes);
  if (answers.size_status != CUBLAS_STATUS_SUCCESS) return {.size_status = answers.size_status};
  answers.no_size_status = get(object, attribute, nullptr, 0, nullptr);
  std::uint64_t wide[2] = {};
  answers.wrong_get = get(object, attribute, wide, answers.bytes + 1, &answers.written);
  answers.value_status = get(object, attribute, &answers.value, answers.bytes, &answers.written);
  return answers;
}

/// The same, and what it says to values for it.
template <class Object, class Attribute, class Get, class Set>
Answers ask(Object object, int number, const Get& get, const Set& set) {
  Answers answers = ask<Object, Attribute>(object, number, get);
  if (answers.size_status != CUBLAS_STATUS_SUCCESS) return answers;
  const auto attribute = static_cast<Attribute>(number);
  std::uint64_t wide[2] = {};
  answers.wrong_set = set(object, attribute, wide, answers.bytes + 1);
  answers.null_set = set(object, attribute, nullptr, answers.bytes);
  answers.right_set = set(object, attribute, &answers.value, answers.bytes);
  return answers;
}

/// Compares the libraries' answers for every attribute that the emulation has.
template <class Ask>
int compare(const Calls& real, const Ask& ask_library) {
  constexpr int kAttributes = 64;
  int known = 0;
  for (int attribute = 0; attribute < kAttributes; ++attribute) {
    CAPTURE(attribute);
    const Answers fake = ask_library(Calls{}, attribute);
    if (fake.size_status != CUBLAS_STATUS_SUCCESS) {
      CHECK(fake.size_status == CUBLAS_STATUS_INVALID_VALUE);
      continue;
    }
    ++known;
    const Answers wanted = ask_library(real, attribute);
    CHECK(wanted.size_status == CUBLAS_STATUS_SUCCESS);
    CHECK(fake.bytes == wanted.bytes);
    CHECK(fake.value == wanted.value);
    CHECK(fake == wanted);
  }
  return known;
}

TEST_CASE("cublaslt: the emulation's descriptors are as the library's") {
  void* const library = real_library();
  if (library == nullptr) {
    MESSAGE("skipped: there is no libcublasLt.so.13");
    return;
  }
  const Calls real = calls_of(library);
  CHECK(compare(real, [](const Calls& calls, int attribute) {
          cublasLtMatmulDesc_t made = nullptr;
          REQUIRE(calls.create_description(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F) ==
                  CUBLAS_STATUS_SUCCESS);
          const Answers answers = ask<cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t>(
              made, attribute, calls.get_description, calls.set_description);
          CHECK(calls.destroy_description(made) == CUBLAS_STATUS_SUCCESS);
          return answers;
        }) == 32);
  CHECK(compare(real, [](const Calls& calls, int attribute) {
          cublasLtMatrixLayout_t made = nullptr;
          REQUIRE(calls.create_layout(&made, CUDA_R_8F_E4M3, 48, 20, 64) == CUBLAS_STATUS_SUCCESS);
          const Answers answers = ask<cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t>(
              made, attribute, calls.get_layout);
          CHECK(calls.destroy_layout(made) == CUBLAS_STATUS_SUCCESS);
          return answers;
        }) == 8);
  CHECK(compare(real, [](const Calls& calls, int attribute) {
          cublasLtMatmulPreference_t made = nullptr;
          REQUIRE(calls.create_preference(&made) == CUBLAS_STATUS_SUCCESS);
          const Answers answers =
              ask<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t>(
                  made, attribute, calls.get_preference, calls.set_preference);
          CHECK(calls.destroy_preference(made) == CUBLAS_STATUS_SUCCESS);
          return answers;
        }) == 6);
  for (const cublasStatus_t status : {CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_NOT_INITIALIZED,
                                      CUBLAS_STATUS_INVALID_VALUE, CUBLAS_STATUS_NOT_SUPPORTED}) {
    CHECK(std::string(cublasLtGetStatusName(status)) == real.status_name(status));
  }
}

}  // namespace
}  // namespace tape8::test
