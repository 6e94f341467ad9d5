/** Which fields of the platform's documents folders own. */
import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { platformScope } from '../../../shared/contracts/revision-scopes.ts';
import { managedDocuments } from '../../../shared/documents/managed-fields.ts';

export const managedFieldActions = (db: DataSource) =>
  ({
    'global-config.managed-fields.list': (asked) =>
      managedDocuments(db.manager, platformScope, asked),
  }) satisfies Handlers;
