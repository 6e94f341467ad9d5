/** The documents of the platform that are written by themselves, by their names in actions. */
import type { DataSource } from 'typeorm';
import { documentActions } from '../../../shared/documents/document.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { boundsKind } from './bounds.ts';
import { budgetsKind } from './budgets.ts';
import { changePolicyKind } from './change-policy.ts';
import { eventDestinationsKind } from './event-destinations.ts';
import { freezesKind } from './freezes.ts';
import { globalEntryKind } from './global-entry.ts';
import { serviceTypeKind } from './service-type.ts';

export const platformDocuments = (db: DataSource, settings: () => Settings) => ({
  entries: documentActions(db, globalEntryKind),
  'service-types': documentActions(db, serviceTypeKind),
  bounds: documentActions(db, boundsKind),
  budgets: documentActions(db, budgetsKind),
  freezes: documentActions(db, freezesKind),
  'change-policy': documentActions(db, changePolicyKind),
  'event-destinations': documentActions(db, eventDestinationsKind(settings)),
});
export type PlatformDocuments = ReturnType<typeof platformDocuments>;
