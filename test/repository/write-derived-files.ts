/** `npm run settings`: writes `.env.example` from the table in `shared/settings/settings-table.ts`. */
import { writeFileSync } from 'node:fs';
import { renderEnvExample } from './env-example.ts';

writeFileSync(new URL('../../.env.example', import.meta.url), renderEnvExample());
