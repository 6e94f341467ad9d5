/**
 * The pieces of Strata: what `npm run start:node -- <pieces>` can host, one row each.
 *
 * Everything else that lists pieces is derived from this table or compared with it by a test: what
 * a node's settings must have, the migrations, which services a process creates,
 * `docker-compose.yml` and the README's map.
 */
import type { ServiceSchema } from 'moleculer';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { DataSource } from 'typeorm';
import type { ServingPiece } from '../shared/cluster/readiness.ts';
import type { Schema } from '../shared/database/open.ts';
import type { Mailer } from '../shared/mail/mailer.ts';
import { createGuard } from '../shared/outgoing/guard.ts';
import { createHttpClient } from '../shared/outgoing/http-client.ts';
import type { HostedPiece, Settings } from '../shared/settings.ts';
import type { ShortLivedState } from '../shared/short-lived-state.ts';
import { auditService } from './audit/audit.service.ts';
import { auditSchema } from './audit/schema.ts';
import { authService } from './auth/auth.service.ts';
import { authSchema } from './auth/schema.ts';
import type { FirstAdmin } from './auth/sign-in/first-admin.ts';
import { configResolverService } from './config-resolver/config-resolver.service.ts';
import { globalConfigService } from './global-config/global-config.service.ts';
import { globalConfigSchema } from './global-config/schema.ts';
import { notifierService } from './notifier/notifier.service.ts';
import { notifierSchema } from './notifier/schema.ts';
import { tenantConfigSchema } from './tenant-config/schema.ts';
import { tenantConfigService } from './tenant-config/tenant-config.service.ts';

/** What a process opens once and hands to each service that it hosts. */
export interface Parts {
  /** Always the latest settings: a reload replaces them. */
  readonly settings: () => Settings;
  readonly shortLived: ShortLivedState;
  readonly mailer: Mailer;
  readonly log: Logger;
  readonly metrics: Registry;
  /** Remembers work that is done once the node serves. A start that fails before leaves it undone. */
  readonly onceServing: (work: () => Promise<void>) => void;
  /** Called where an empty database got its first platform admin. Shows the password before it returns. */
  readonly onFirstAdmin: (admin: FirstAdmin) => void;
}

interface AnyPiece extends HostedPiece, ServingPiece {
  /** Issues or verifies access tokens, or sends links: BASE_URL has to be the same for all such pieces. */
  readonly usesBaseUrl?: true;
}
/** A piece with tables of its own gets a pool that is opened on its schema. */
interface PieceWithTables extends AnyPiece {
  readonly schema: Schema;
  readonly service: (parts: Parts, db: DataSource) => ServiceSchema;
}
/** The gateway is no service on the bus: `strata.ts` starts it once the node has joined. */
interface PieceWithoutTables extends AnyPiece {
  readonly schema?: undefined;
  readonly service?: (parts: Parts) => ServiceSchema;
}
export type Piece = PieceWithTables | PieceWithoutTables;

export const pieces: readonly Piece[] = [
  {
    name: 'tenant-config',
    needs: ['database_url'],
    calls: ['auth', 'global-config', 'config-resolver'],
    vital: [],
    schema: tenantConfigSchema,
    service: ({ settings, log }, db) => tenantConfigService({ db, settings, log }),
  },
  {
    name: 'global-config',
    needs: ['database_url'],
    calls: ['config-resolver'],
    vital: [],
    schema: globalConfigSchema,
    service: (_parts, db) => globalConfigService({ db }),
  },
  {
    name: 'config-resolver',
    needs: [],
    calls: ['tenant-config', 'global-config'],
    vital: ['tenant-config', 'global-config'],
    service: ({ settings }) => configResolverService({ settings }),
  },
  {
    name: 'auth',
    needs: ['database_url', 'redis_url'],
    calls: ['tenant-config'],
    vital: [],
    usesBaseUrl: true,
    schema: authSchema,
    service: ({ settings, shortLived, mailer, log, onceServing, onFirstAdmin }, db) =>
      authService({ db, settings, shortLived, mailer, log, onceServing, onFirstAdmin }),
  },
  {
    name: 'audit',
    needs: ['database_url'],
    calls: [],
    vital: [],
    schema: auditSchema,
    service: ({ settings, log }, db) => auditService({ db, settings, log }),
  },
  {
    name: 'notifier',
    needs: ['database_url', 'redis_url'],
    calls: ['tenant-config', 'config-resolver', 'auth'],
    vital: [],
    usesBaseUrl: true,
    schema: notifierSchema,
    service: ({ settings, mailer, log, metrics }, db) => {
      const http = createHttpClient(createGuard(settings), settings);
      return notifierService({ db, settings, http, mailer, log, metrics });
    },
  },
  {
    name: 'gateway',
    needs: ['redis_url'],
    calls: ['tenant-config', 'global-config', 'config-resolver', 'auth', 'audit', 'notifier'],
    vital: ['auth', 'tenant-config'],
    usesBaseUrl: true,
  },
];
