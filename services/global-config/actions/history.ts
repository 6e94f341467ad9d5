/** Actions on the platform's ConfigurationHistory: its pages, and one entry in full. */
import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { platformRealm } from '../../../shared/commits/actor-names.ts';
import { commitChange, type Work } from '../../../shared/commits/commit.ts';
import { purgedAction } from '../../../shared/contracts/history.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { platformScope } from '../../../shared/contracts/revision-scopes.ts';
import { addressOf, pathOf } from '../../../shared/documents/document-paths.ts';
import type { AllDocuments } from '../../../shared/documents/document.ts';
import { historyDetail, historyPage, withAuthors } from '../../../shared/documents/history.ts';
import { HistoryEntity } from '../schema.ts';
import { findEntry, recordHistory } from '../stores/history.ts';
import { purgeChangeSets, purgePast, purgeRollouts, withPurges } from '../stores/purges.ts';

const pathIn = (actions: string, resourceId: string): string =>
  pathOf(actions, addressOf(actions, null, resourceId));

export const historyActions = (db: DataSource, all: AllDocuments) =>
  ({
    async 'global-config.history.list'(params) {
      const rows = () => db.manager.createQueryBuilder(HistoryEntity, 'h').where('true');
      const page = await historyPage(db.manager, rows, params, platformRealm);
      return { ...page, items: await withPurges(db.manager, page.items) };
    },

    async 'global-config.history.get'({ revision }) {
      const found = historyDetail(await findEntry(db.manager, revision));
      const entries = await withAuthors(db.manager, platformRealm, [found]);
      const [entry] = await withPurges(db.manager, entries);
      return entry!;
    },

    /**
     * The audit does the same with its events when it gets this one. That it is a change of the
     * platform drops what nodes remember of the past.
     */
    async 'global-config.history.purge'({ body: { reason, ...name } }, request) {
      const work: Work<ResultOf<'global-config.history.purge'>> = async (manager, at, revision) => {
        const by = { purged_by: request.caller.id, purged_at: at, reason };
        const { config_type: configType, resource_id: resourceId } = name;
        const written = all.find(({ kind }) => kind.configType === configType);
        const changeSets = written
          ? await purgeChangeSets(manager, pathIn(written.kind.actions, resourceId))
          : 0;
        const rollouts = await purgeRollouts(manager, name, by);
        const isElsewhere = changeSets > 0 || rollouts.length > 0;
        const { below, ...purged } = await purgePast(manager, name, by, isElsewhere);
        const time = at.toISOString();
        const none = { before: null, after: null };
        const row = { revision, action: 'purge', ...none, at: time, reason } as const;
        await recordHistory(manager, { configType, resourceId }, row, request);
        const eventOf = (type: typeof configType, target: string, upTo: number) => ({
          action: purgedAction(type),
          tenant_id: null,
          target,
          payload: { revision, reason, below: upTo },
        });
        const events = [
          eventOf(configType, resourceId, below),
          ...rollouts.map((gone) => eventOf('rollout_config', gone.resource_id, gone.below)),
        ];
        return { result: { revision, ...name, ...purged, at: time }, keys: [], events };
      };
      return commitChange(db, request, platformScope, work);
    },
  }) satisfies Handlers;
