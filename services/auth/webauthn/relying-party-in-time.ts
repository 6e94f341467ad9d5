/**
 * The relying party, whose library with all its forms of certificates is loaded at the first
 * ceremony, not at each start.
 */
import type { Settings } from '../../../shared/settings.ts';
import type { RelyingParty } from './relying-party.ts';

export function relyingPartyInTime(
  settings: () => Pick<Settings, 'frontend_origin'>,
): RelyingParty {
  const load = async (): Promise<RelyingParty> => {
    const { createRelyingParty } = await import('./relying-party.ts');
    return createRelyingParty(settings);
  };
  return {
    loginOptions: async () => (await load()).loginOptions(),
    verifyLogin: async (...given) => (await load()).verifyLogin(...given),
    registrationOptions: async (...given) => (await load()).registrationOptions(...given),
    verifyRegistration: async (...given) => (await load()).verifyRegistration(...given),
  };
}
