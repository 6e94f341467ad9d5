# Proves exported lines of the audit without Strata: python3 verify.py [seq hash] < lines.ndjson
import hashlib, json, sys

class Number(str):
    """As it is written, which is how it was hashed."""

def canonical(value):
    if isinstance(value, Number): return value
    if isinstance(value, list): return '[' + ','.join(map(canonical, value)) + ']'
    if not isinstance(value, dict): return json.dumps(value, ensure_ascii=False)
    names = sorted(value, key=lambda name: name.encode('utf-16-be', 'surrogatepass'))
    return '{' + ','.join(canonical(name) + ':' + canonical(value[name]) for name in names) + '}'

def fail(what, where=None):
    sys.exit(print(f'{what}: {where or seq + 1}') or 1)

seq, hash, purged = int((sys.argv[1:2] or [0])[0]), (sys.argv[2:3] or ['0' * 64])[0], {}
for text in sys.stdin.buffer:
    line = json.loads(text, parse_int=Number, parse_float=Number)
    if 'checkpoint' in line: continue
    if int(line.get('from', line['seq'])) != seq + 1: fail('missing')
    if line['previous'] != hash and line.get('skipped') != 'cut': fail('does not join')
    if 'skipped' not in line:
        event = {name: value for name, value in line.items() if name != 'hash'}
        event['actor'].pop('name', None)
        computed = hashlib.sha256(canonical(event).encode()).hexdigest()
        payload = event['payload'] if isinstance(event['payload'], dict) else {}
        if payload.get('purged'): purged[line['seq']] = (line['hash'], line['previous'], computed)
        elif computed != line['hash']: fail('altered')
        if event['action'] == 'audit.events_purged':
            for number, link in payload['links'].items():
                if purged.get(number) == (link['hash'], link['previous'], link['left']): del purged[number]
    seq, hash = int(line['seq']), line['hash']
for number in purged: fail('not attested', number)
print(f'whole: {seq} {hash}')
