/** Holds so many GETs with `wait`, each on a connection of its own, and asks again when answered. */
import { Agent, get } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';

const [url, token, count] = process.argv.slice(2) as [string, string, string];
const agent = new Agent({ keepAlive: true, maxSockets: Infinity });
const headers = { authorization: `Bearer ${token}` };
let refused = 0;

function hold(): void {
  get(url, { agent, headers }, (response) => {
    response.resume().once('end', hold);
    if (response.statusCode === 200) return;
    refused += 1;
    if (refused === 1) process.stderr.write(`held GET: ${response.statusCode}\n`);
  }).once('error', (error) => process.stderr.write(`${error.message}\n`));
}

// Not all at once, since a server takes so many new connections and no more.
for (let each = 0; each < Number(count); each += 1) {
  if (each % 50 === 0) await delay(20);
  hold();
}
process.stdout.write('asked\n');
