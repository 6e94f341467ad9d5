/**
 * The roles of Strata: what `npm run start:node -- <roles>` can host, one row each.
 *
 * Everything else that lists roles is derived from this table or compared with it by a test: what
 * a node's settings must have, the migrations, which services a process creates,
 * `docker-compose.yml` and the README's map.
 */
import type { ServiceSchema } from 'moleculer';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { DataSource } from 'typeorm';
import type { ServingRole, StartWork } from '../shared/node/readiness.ts';
import type { Coherence } from '../shared/coherence/coherence.ts';
import type { Schema } from '../shared/database/open.ts';
import type { Mailer } from '../shared/mail/mailer.ts';
import type { HostedRole, Settings } from '../shared/settings/settings.ts';
import type { ShortLivedState } from '../shared/concurrency/short-lived-state.ts';
import type { FirstAdmin } from './auth/accounts/first-admin.ts';
import type { DecisionRecorder } from './config-resolver/actions/recording.ts';

/** What a process opens once and hands to each service that it hosts. */
export interface Parts {
  /** Always the latest settings: a reload replaces them. */
  readonly settings: () => Settings;
  readonly shortLived: ShortLivedState;
  readonly mailer: Mailer;
  readonly log: Logger;
  readonly metrics: Registry;
  readonly coherence: Pick<Coherence, 'onChange' | 'onReset'>;
  readonly recorder: DecisionRecorder;
  /**
   * Remembers work that is done once the node serves: a start that fails before leaves it undone.
   * Until it is done `/readyz` names it, and the node is not ready.
   */
  readonly onceServing: (name: StartWork, work: () => Promise<void>) => void;
  /** Calls the listener once a signal asks for the end, before the node takes no more calls. */
  readonly onStopping: (listener: () => void) => void;
  /**
   * Called where an empty database got its first platform admin. Shows the password before it
   * returns.
   */
  readonly onFirstAdmin: (admin: FirstAdmin) => void;
}

/** A role with tables of its own gets a pool that is opened on its schema. */
interface WithTables {
  readonly schema: Schema;
  readonly service: (parts: Parts, db: DataSource) => ServiceSchema;
}
interface WithoutTables {
  readonly schema?: undefined;
  readonly service: (parts: Parts) => ServiceSchema;
}
export type RoleCode = WithTables | WithoutTables;

export interface NodeRole extends HostedRole, ServingRole {
  /**
   * Imports its code with the libraries behind it, which only nodes that host the role need: what
   * a node loads is most of its start and of its memory. Absent for the gateway, which is no
   * service on the bus: `start.ts` starts it once the node has joined.
   */
  readonly load?: () => Promise<RoleCode>;
}

export const roles: readonly NodeRole[] = [
  {
    name: 'tenant-config',
    needs: ['database_url'],
    calls: ['auth', 'global-config', 'config-resolver', 'notifier'],
    vital: [],
    hasTables: true,
    async load() {
      const { tenantConfigSchema: schema } = await import('./tenant-config/schema.ts');
      const { tenantConfigService } = await import('./tenant-config/tenant-config.service.ts');
      return { schema, service: (parts, db) => tenantConfigService({ ...parts, db }) };
    },
  },
  {
    name: 'global-config',
    needs: ['database_url'],
    calls: ['auth', 'config-resolver', 'notifier', 'tenant-config'],
    vital: [],
    hasTables: true,
    async load() {
      const { globalConfigSchema: schema } = await import('./global-config/schema.ts');
      const { globalConfigService } = await import('./global-config/global-config.service.ts');
      return { schema, service: (parts, db) => globalConfigService({ ...parts, db }) };
    },
  },
  {
    name: 'config-resolver',
    needs: [],
    calls: ['tenant-config', 'global-config', 'notifier'],
    vital: ['tenant-config', 'global-config'],
    async load() {
      const { configResolverService } =
        await import('./config-resolver/config-resolver.service.ts');
      return { service: configResolverService };
    },
  },
  {
    name: 'auth',
    needs: ['database_url', 'redis_url'],
    calls: ['tenant-config'],
    vital: [],
    hasTables: true,
    async load() {
      const { authSchema: schema } = await import('./auth/schema.ts');
      const { authService } = await import('./auth/auth.service.ts');
      return { schema, service: (parts, db) => authService({ ...parts, db }) };
    },
  },
  {
    name: 'audit',
    needs: ['database_url'],
    calls: ['auth', 'tenant-config', 'global-config'],
    vital: [],
    hasTables: true,
    async load() {
      const { auditSchema: schema } = await import('./audit/schema.ts');
      const { auditService } = await import('./audit/audit.service.ts');
      return { schema, service: (parts, db) => auditService({ ...parts, db }) };
    },
  },
  {
    name: 'notifier',
    needs: ['database_url', 'redis_url'],
    calls: ['tenant-config', 'global-config', 'config-resolver', 'auth'],
    vital: [],
    hasTables: true,
    async load() {
      const { notifierSchema: schema } = await import('./notifier/schema.ts');
      const { notifierService } = await import('./notifier/notifier.service.ts');
      const { createGuard } = await import('../shared/outgoing/guard.ts');
      const { createHttpClient } = await import('../shared/outgoing/http-client.ts');
      return {
        schema,
        service({ settings, ...parts }, db) {
          const http = createHttpClient(createGuard(settings), settings);
          return notifierService({ ...parts, settings, http, db });
        },
      };
    },
  },
  {
    name: 'gateway',
    needs: ['redis_url'],
    calls: ['tenant-config', 'global-config', 'config-resolver', 'auth', 'audit', 'notifier'],
    vital: ['auth', 'tenant-config'],
  },
];
