/**
 * Posts signed notices with got, so many at a time, and keeps nothing: what delivering costs
 * without a queue.
 */
import got from 'got';
import { readFileSync } from 'node:fs';
import { signatureHeaders } from '../../../shared/outgoing/signature.ts';

const [url, file, count, concurrency, secret] = process.argv.slice(2) as [
  string,
  string,
  string,
  string,
  string,
];
const body = readFileSync(file, 'utf8');
let left = Number(count);
const lane = async (): Promise<void> => {
  while (left > 0) {
    left -= 1;
    const id = `ntf_${left}`;
    const headers = {
      'content-type': 'application/json',
      ...signatureHeaders({
        id,
        body,
        timestamp: Math.floor(Date.now() / 1000),
        secrets: [secret],
      }),
    };
    await got.post(url, { body, headers, retry: { limit: 0 } });
  }
};
await Promise.all(Array.from({ length: Number(concurrency) }, lane));
process.stdout.write('sent\n');
