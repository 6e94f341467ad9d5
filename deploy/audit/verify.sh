# Proves exported lines of the audit without Strata: bash verify.sh [seq hash] < lines.ndjson
# With jq and openssl. It takes purged events as they are, and
# jq writes a few numbers and control characters otherwise than they were hashed: judge by another program then.
seq=${1:-0} hash=${2:-$(printf '0%.0s' {1..64})}
fail() { echo "$1: $((seq + 1))"; exit 1; }

# Also a last line without its line feed.
while IFS= read -r line || [ -n "$line" ]; do
  case $line in '{"checkpoint":'*) continue ;; esac
  read -r from last said previous skipped purged < <(jq -r '[.from // .seq, .seq, .hash,
    .previous // "-", .skipped // "-", (.payload | objects | .purged) // false] | join(" ")' <<< "$line")
  [ "$from" = "$((seq + 1))" ] || fail missing
  [ "$previous" = "$hash" ] || [ "$skipped" = cut ] || fail 'does not join'
  if [ "$skipped" = - ] && [ "$purged" = false ]; then
    computed=$(jq -jcS 'del(.hash, .actor.name)' <<< "$line" | openssl dgst -sha256 -r | cut -d' ' -f1)
    [ "$computed" = "$said" ] || fail altered
  fi
  seq=$last hash=$said
done
echo "whole: $seq $hash"
