// Proves exported lines of the audit without Strata: node verify.mjs [seq hash] < lines.ndjson
import { createHash } from 'node:crypto';
import { createInterface } from 'node:readline';

const canonical = (value) => {
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonical)}]`;
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`)}}`;
};
let [seq, hash] = [Number(process.argv[2] ?? 0), process.argv[3] ?? '0'.repeat(64)];
const purged = new Map();
const fail = (what, where = seq + 1) => process.exit(console.log(`${what}: ${where}`) ?? 1);

for await (const text of createInterface({ input: process.stdin })) {
  const line = JSON.parse(text);
  if (line.checkpoint) continue;
  if ((line.from ?? line.seq) !== seq + 1) fail('missing');
  if (line.previous !== hash && line.skipped !== 'cut') fail('does not join');
  if (!line.skipped) {
    const { hash: said, ...event } = line;
    delete event.actor.name;
    const computed = createHash('sha256').update(canonical(event)).digest('hex');
    const { purged: isPurged, links } = event.payload ?? {};
    if (isPurged) purged.set(`${line.seq}`, `${said} ${line.previous} ${computed}`);
    else if (computed !== said) fail('altered');
    if (event.action === 'audit.events_purged')
      for (const [number, link] of Object.entries(links))
        if (purged.get(number) === `${link.hash} ${link.previous} ${link.left}`)
          purged.delete(number);
  }
  ({ seq, hash } = line);
}
for (const [number] of purged) fail('not attested', number);
console.log(`whole: ${seq} ${hash}`);
