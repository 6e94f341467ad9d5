/**
 * `npm run contracts`, at a release: writes `contracts.txt`, against which later checkouts are
 * held.
 */
import { writeFileSync } from 'node:fs';
import { contractFacts, written } from './contract-facts.ts';

writeFileSync(new URL('contracts.txt', import.meta.url), written(contractFacts()));
