/** tenant-config: tenants and members, their configuration documents, ConfigurationHistory and rollback. */
import type { ServiceSchema } from 'moleculer';
import type { DataSource } from 'typeorm';
import { serviceOf } from '../../shared/cluster/service.ts';
import type { Handlers } from '../../shared/cluster/request.ts';
import { documentActions } from '../../shared/documents/document.ts';
import type { Settings } from '../../shared/settings.ts';
import { historyActions } from './actions/history.ts';
import { layerActions } from './actions/layers.ts';
import { listing } from './actions/listing.ts';
import { memberActions } from './actions/members.ts';
import { notificationActions } from './actions/notifications.ts';
import { rollbackAction } from './actions/rollback.ts';
import { tenantActions } from './actions/tenants.ts';
import { agentKind } from './documents/agent.ts';
import { notificationKind } from './documents/notifications.ts';
import { projectKind } from './documents/project.ts';
import { riskKind } from './documents/risk.ts';
import { serviceKind } from './documents/service.ts';
import { AgentEntity, ProjectEntity, ServiceEntity } from './schema.ts';

export interface TenantConfigOptions {
  readonly db: DataSource;
  readonly settings: () => Settings;
}

export function tenantConfigService({ db, settings }: TenantConfigOptions): ServiceSchema {
  const notifications = notificationKind(settings);
  const risk = documentActions(db, riskKind(settings));
  const agents = documentActions(db, agentKind);
  const services = documentActions(db, serviceKind);
  const projects = documentActions(db, projectKind);
  const notification = documentActions(db, notifications);
  const handlers = {
    'tenant-config.risk.get': risk.get,
    'tenant-config.risk.put': risk.put,
    'tenant-config.risk.patch': risk.patch,
    'tenant-config.agents.get': agents.get,
    'tenant-config.agents.put': agents.put,
    'tenant-config.agents.patch': agents.patch,
    'tenant-config.agents.delete': agents.delete,
    'tenant-config.agents.list': listing(db, AgentEntity),
    'tenant-config.services.get': services.get,
    'tenant-config.services.put': services.put,
    'tenant-config.services.patch': services.patch,
    'tenant-config.services.delete': services.delete,
    'tenant-config.services.list': listing(db, ServiceEntity),
    'tenant-config.projects.get': projects.get,
    'tenant-config.projects.put': projects.put,
    'tenant-config.projects.patch': projects.patch,
    'tenant-config.projects.delete': projects.delete,
    'tenant-config.projects.list': listing(db, ProjectEntity),
    'tenant-config.notifications.get': notification.get,
    'tenant-config.notifications.put': notification.put,
    'tenant-config.notifications.patch': notification.patch,
    ...notificationActions(db, settings),
    ...historyActions(db),
    ...rollbackAction(db, { risk, agents, services, projects, notification }),
    ...layerActions(db),
    ...tenantActions(db, settings),
    ...memberActions(db),
  };
  return serviceOf('tenant-config', handlers as unknown as Handlers);
}
