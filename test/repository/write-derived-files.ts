/** `npm run settings`: writes what `derived-files.ts` makes of settings and contracts. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  renderEnumerated,
  renderEnvExample,
  renderKnownValues,
  withEverySetting,
} from './derived-files.ts';

const root = join(import.meta.dirname, '../..');
const compose = join(root, 'docker-compose.yml');
writeFileSync(join(root, '.env.example'), renderEnvExample());
writeFileSync(join(root, 'client/source/known-values.ts'), renderKnownValues());
writeFileSync(join(root, 'console/known-values.ts'), renderEnumerated());
writeFileSync(compose, withEverySetting(readFileSync(compose, 'utf8')));
