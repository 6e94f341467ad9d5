/** audit: append-only events, chained by hash per tenant and for the platform; query, and proof of the chains. */
import type { ServiceSchema } from 'moleculer';
import type { DataSource } from 'typeorm';
import { serviceOf } from '../../shared/cluster/service.ts';
import { eventActions } from './actions/events.ts';
import { verifyActions } from './actions/verify.ts';

export const auditService = ({ db }: { readonly db: DataSource }): ServiceSchema =>
  serviceOf('audit', { ...eventActions(db), ...verifyActions(db) });
