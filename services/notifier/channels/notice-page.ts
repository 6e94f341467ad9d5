import { approvalAddress, changeSetAddress } from '../../../shared/mail/console-links.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { testNotice, type NoticeBody } from '../rules/notice.ts';

/**
 * The page of the console that a notice in a chat leads to: of its approval or change set, where
 * people sign in. A channel has many readers, so no address in it decides anything.
 */
export function noticePage(
  { type, data }: NoticeBody,
  settings: Pick<Settings, 'base_url'>,
): string | undefined {
  const { tenant_id: tenantId } = data;
  if (type === testNotice) return undefined;
  if ('changeset_id' in data) return changeSetAddress(settings, tenantId, data.changeset_id);
  return 'approval_id' in data ? approvalAddress(settings, tenantId, data.approval_id) : undefined;
}
