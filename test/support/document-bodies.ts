/** A document of each kind, for tests that walk all of them. */

/** A body that each kind of document takes, and where. By the beginning of its actions. */
export const bodies: Record<string, { address: Record<string, string>; body: unknown }> = {
  'tenant-config.risk': { address: {}, body: { global_settings: { max_cost_impact_auto: 14 } } },
  'tenant-config.agents': {
    address: { agent_type: 'walked' },
    body: { default_scaling: { min_instances: 1 } },
  },
  'tenant-config.services': {
    address: { service_id: 'walked' },
    body: { service_type: 'cloud_run', min_instances: 1 },
  },
  'tenant-config.projects': {
    address: { project_id: 'walked' },
    body: { labels: { name: 'x' } },
  },
  'tenant-config.notifications': {
    address: {},
    body: { escalation: { escalation_window_minutes: 30 } },
  },
  'tenant-config.bounds': { address: {}, body: { walked: { maximum: 3 } } },
  'tenant-config.budgets': {
    address: {},
    body: { walked: { amount: '5.00', counts: 'actions', per: 'day' } },
  },
  'tenant-config.freezes': {
    address: {},
    body: { walked: { during: [{ dates: ['12-25'], timezone: 'UTC' }] } },
  },
  'tenant-config.event-destinations': {
    address: {},
    body: { walked: { url: 'https://walked.example/', paused: true, batch: { max_events: 5 } } },
  },
  'tenant-config.change-policy': { address: {}, body: { keys: ['walked'] } },
  'global-config.entries': {
    address: { key: 'walked' },
    body: { config_value: 7, is_public: true },
  },
  'global-config.service-types': {
    address: { service_type: 'cloud_run', configuration_name: 'walked' },
    body: { is_active: false },
  },
  'global-config.bounds': { address: {}, body: { walked: { maximum: 3 } } },
  'global-config.budgets': {
    address: {},
    body: { walked: { amount: '5.00', counts: 'actions', per: 'day' } },
  },
  'global-config.freezes': {
    address: {},
    body: { walked: { during: [{ dates: ['12-25'], timezone: 'UTC' }] } },
  },
  'global-config.change-policy': { address: {}, body: { tenants: {} } },
  'global-config.event-destinations': {
    address: {},
    body: { walked: { url: 'https://walked.example/', paused: true, batch: { max_events: 5 } } },
  },
};

/** The same with other values. */
export const otherValues = (body: unknown): unknown =>
  JSON.parse(
    JSON.stringify(body, (_name, value) => {
      if (typeof value === 'number') return value + 1;
      if (value === '5.00') return '6.00';
      if (value === '12-25') return '12-26';
      if (value === 'x') return 'y';
      return value;
    }),
  );
