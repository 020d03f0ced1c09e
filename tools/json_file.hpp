#pragma once

#include <fstream>
#include <string>

namespace tape8::tools {

/// The file of --json; - is standard output. Does nothing without a name. Throws IoError: at once
/// where the file cannot be opened.
class JsonFile {
 public:
  explicit JsonFile(const std::string& name);

  bool is_standard_output() const { return name_ == "-"; }
  /// Writes the document and the end of its last line.
  void write(const std::string& document);

 private:
  void check() const;

  std::string name_;
  std::ofstream stream_;
};

}  // namespace tape8::tools
