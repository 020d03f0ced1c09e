#!/usr/bin/env bash
# A shared tape8 exports what is in its public interface and nothing else: no kernel, and no template of
# another library that could take the place of a consumer's own.
# check_symbols.sh LIBRARY NM
set -euo pipefail
library=$1
nm=$2

symbols=$("$nm" --dynamic --defined-only --format=posix "$library" | cut -d' ' -f1)
demangled=$("$nm" --dynamic --defined-only --demangle "$library" | cut -d' ' -f3-)
count=$(wc -l <<<"$symbols")
if ((count < 100)); then
  echo "symbols: $library exports only $count: is it a shared tape8?"
  exit 1
fi
# A name, a constant name, and the tables of a class, all in namespace tape8.
if grep -vE '^_Z(|T[ISV])NK?5tape8' <<<"$symbols"; then
  echo "symbols: $library exports the above, which are not in namespace tape8"
  exit 1
fi
if grep -E 'tape8::(cpu|tools)::|tape8::(Backend|Storage|Tape::Impl|QuantizerState|VariableState)::' <<<"$demangled"; then
  echo "symbols: $library exports the above, which are internal"
  exit 1
fi
echo "symbols: $library exports $count, all of them tape8's"
