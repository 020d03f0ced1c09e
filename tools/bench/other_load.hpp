#pragma once

namespace tape8::tools::bench {

/// What the rest of the machine does from an object's construction on.
class OtherLoad {
 public:
  OtherLoad();
  /// Share of all cores' time that went to others than this program; 0 where the system does not
  /// say.
  double share() const;

 private:
  struct Seconds {
    double all = 0.0;     // of all cores
    double others = 0.0;  // of these, to other programs
  };
  static Seconds now();

  Seconds begin_;
};

}  // namespace tape8::tools::bench
