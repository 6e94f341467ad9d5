/** Questions that people ask of the audit again and again: each is a filter, kept in the address. */
import type { VNode } from 'preact';
import { setQuery } from '../address.ts';
import { Button } from '../inline.tsx';

interface Preset {
  readonly title: string;
  /** Beginnings of the names of actions, with commas between them. */
  readonly action: string;
}

const presets: readonly Preset[] = [
  {
    title: 'Changes of limits',
    action: 'config.risk.,config.bounds.,config.budgets.,config.freezes.',
  },
  { title: 'All of the configuration', action: 'config.,changeset.,rollout.' },
  { title: 'Sign-ins', action: 'auth.login_,auth.workload_signed_in,auth.workload_refused' },
  { title: 'Denied', action: 'automation.denied,approval.denied,auth.login_failed' },
  { title: 'Approvals', action: 'approval.' },
  {
    title: 'People and keys',
    action:
      'tenant.member,tenant.visit,tenant.invitation,tenant.service_account,auth.api_key,auth.user_',
  },
];

export const AuditPresets = ({ action }: { readonly action: string }): VNode => (
  <p class="buttons presets">
    {presets.map((preset) => (
      <Button
        key={preset.title}
        class="small"
        says={preset.title}
        aria-pressed={action === preset.action}
        onClick={() => setQuery({ action: preset.action, cursor: '', open: '' })}
      />
    ))}
    {action !== '' && (
      <Button
        class="link"
        says="Any action"
        onClick={() => setQuery({ action: '', cursor: '', open: '' })}
      />
    )}
  </p>
);
