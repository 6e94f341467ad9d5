/**
 * Every error code that Strata answers with, its HTTP status, and the message where whoever throws
 * it gives no better one. Part of the contract with clients: a code that went out of use stays
 * listed.
 */
export const errorTable = {
  invalid_request: { status: 400, message: 'This is not a request that HTTP knows.' },
  invalid_json: { status: 400, message: 'The body is not valid JSON.' },
  denial_invalid: {
    status: 400,
    message: 'That is not what was denied to you and may be asked for. Evaluate it again.',
  },
  scim_filter_invalid: {
    status: 400,
    message: 'Filter by userName, externalId or id, with eq and a text in quotes.',
  },
  scim_path_invalid: { status: 400, message: 'There is no such attribute to change.' },
  scim_mutability: {
    status: 400,
    message:
      'A userName does not change, because an account is found by it. Delete the user and create another.',
  },
  auth_grant_type_unsupported: {
    status: 400,
    message: 'The only grant_type is urn:ietf:params:oauth:grant-type:token-exchange.',
  },
  auth_workload_target_invalid: {
    status: 400,
    message: 'Name the service account by its address: as audience, or as aud of the token.',
  },
  auth_workload_scope_invalid: {
    status: 400,
    message: 'No rule that trusts this token gives these scopes.',
  },
  auth_token_missing: {
    status: 401,
    message: 'Sign in: send Authorization: Bearer <token>, or X-API-Key.',
  },
  auth_token_invalid: { status: 401, message: 'The access token is not valid. Sign in again.' },
  auth_token_expired: {
    status: 401,
    message: 'The access token has expired. Refresh it or sign in again.',
  },
  auth_session_revoked: { status: 401, message: 'The session has ended. Sign in again.' },
  auth_api_key_invalid: { status: 401, message: 'This API key is not valid.' },
  auth_invalid_credentials: { status: 401, message: 'E-mail or password is wrong.' },
  auth_refresh_invalid: { status: 401, message: 'The refresh token is not valid. Sign in again.' },
  auth_refresh_expired: { status: 401, message: 'The refresh token has expired. Sign in again.' },
  auth_refresh_reused: {
    status: 401,
    message: 'The refresh token was used before, so the session was ended. Sign in again.',
  },
  auth_password_reset_invalid: {
    status: 401,
    message: 'The password reset link is unknown, used or expired. Ask for a new one.',
  },
  auth_invitation_invalid: {
    status: 401,
    message: 'The invitation is unknown, used or expired. Ask for it to be sent again.',
  },
  auth_webauthn_challenge_invalid: {
    status: 401,
    message: 'The passkey challenge is unknown, used or expired. Start again.',
  },
  auth_webauthn_verification_failed: { status: 401, message: 'The passkey could not be verified.' },
  auth_sso_state_invalid: {
    status: 401,
    message: 'The sign-in state is unknown, used or expired. Start again.',
  },
  auth_sso_exchange_failed: {
    status: 401,
    message: 'The identity provider refused the authorization code.',
  },
  auth_sso_token_invalid: {
    status: 401,
    message: 'The identity provider answered with a token that is not valid.',
  },
  auth_workload_token_refused: {
    status: 401,
    message: 'No rule of that service account trusts this token, or it was used before.',
  },
  insufficient_role: { status: 403, message: 'Your roles do not allow this.' },
  insufficient_scope: { status: 403, message: 'The API key lacks the scope for this.' },
  approval_own_request: { status: 403, message: 'The requester of an approval cannot decide it.' },
  approval_decider_added_by_requester: {
    status: 403,
    message:
      'Who asked for this approval gave you the right to decide it less than 24 hours before.',
  },
  change_approval_required: {
    status: 403,
    message: 'The change_policy has this changed under four eyes: propose it as a change set.',
  },
  visit_reads_only: {
    status: 403,
    message: 'You are looking into this tenant, read-only. End the visit to do this.',
  },
  tenant_mismatch: { status: 403, message: 'You are not a member of this tenant.' },
  auth_no_tenant_membership: { status: 403, message: 'You are not a member of that tenant.' },
  auth_tenant_disabled: { status: 403, message: 'The tenant is disabled.' },
  auth_address_unproved: {
    status: 403,
    message: 'No one has proved that the address of this account is theirs. Use the mailed link.',
  },
  auth_reauth_required: {
    status: 403,
    message: 'Sign in again: this needs a sign-in of the last 10 minutes.',
  },
  auth_stronger_sign_in_required: {
    status: 403,
    message:
      'Sign in with a passkey or through your identity provider. This session can only register a passkey.',
  },
  auth_cross_site_request: {
    status: 403,
    message:
      "Only the console's own page may do this: the browser has to send Sec-Fetch-Site: same-origin, which it does over https and on localhost.",
  },
  auth_sso_domain_not_allowed: {
    status: 403,
    message: 'The e-mail domain does not belong to this identity provider.',
  },
  auth_sso_account_not_provisioned: {
    status: 403,
    message: 'No account exists and the provider may not create one.',
  },
  not_found: { status: 404, message: 'Not found.' },
  before_history: {
    status: 404,
    message: 'It is from before the history begins, so it is not known.',
  },
  auth_sso_provider_not_found: { status: 404, message: 'No identity provider serves this.' },
  method_not_allowed: { status: 405, message: 'This path does not take this method.' },
  request_timeout: { status: 408, message: 'The request did not arrive in time.' },
  conflict: { status: 409, message: 'The request conflicts with what is stored.' },
  scim_uniqueness: {
    status: 409,
    message: 'The directory has provisioned this userName or externalId already.',
  },
  field_managed: {
    status: 409,
    message: 'A folder owns this field. Change it there, or take it over with X-Take-Over.',
  },
  tenant_not_disabled: {
    status: 409,
    message: 'Only a disabled tenant can be deleted. Disable it first.',
  },
  grant_used: {
    status: 409,
    message: 'The action was redeemed before, and is allowed once.',
  },
  auth_sso_link_required: {
    status: 409,
    message: 'An account with this e-mail exists. Sign in to it and link the provider.',
  },
  denial_expired: {
    status: 410,
    message: 'It was denied too long ago to be asked for. Evaluate it again.',
  },
  automation_over: {
    status: 410,
    message: 'The automation does not run any more, or is stopped. Nothing may be done by it.',
  },
  precondition_failed: { status: 412, message: 'The resource has changed since you read it.' },
  payload_too_large: { status: 413, message: 'The body is larger than 1 MiB.' },
  unsupported_media_type: { status: 415, message: 'Send application/json.' },
  expectation_failed: {
    status: 417,
    message: 'The only expectation that is met is `Expect: 100-continue`.',
  },
  validation_failed: { status: 422, message: 'Some fields are not valid.' },
  auth_password_too_short: { status: 422, message: 'The password needs 12 to 256 characters.' },
  auth_password_breached: {
    status: 422,
    message: 'The password is a common one, or easily made from one.',
  },
  quota_exceeded: { status: 422, message: 'The tenant has as many as it may have.' },
  cost_impact_required: {
    status: 422,
    message: 'Say cost_impact: a budget of costs holds here, and a missing cost is not free.',
  },
  digest_mismatch: {
    status: 422,
    message: 'That is not the digest of the action that was allowed. Nothing may be done by it.',
  },
  grant_invalid: {
    status: 422,
    message: 'That is no grant of this automation. Nothing may be done by it.',
  },
  rate_limited: { status: 429, message: 'Too many requests.' },
  internal_error: {
    status: 500,
    message: 'An unexpected error happened. It is in the log under the request id.',
  },
  auth_login_internal_error: { status: 500, message: 'Login failed because of an internal error.' },
  auth_refresh_internal_error: {
    status: 500,
    message: 'Refreshing failed because of an internal error.',
  },
  auth_webauthn_internal_error: {
    status: 500,
    message: 'Passkey login failed because of an internal error.',
  },
  auth_sso_internal_error: {
    status: 500,
    message: 'Single sign-on failed because of an internal error.',
  },
  auth_api_key_internal_error: {
    status: 500,
    message: 'The API key could not be made because of an internal error.',
  },
  auth_sso_provider_error: {
    status: 502,
    message: 'The identity provider answered with an error.',
  },
  auth_workload_issuer_error: {
    status: 502,
    message: 'The keys of the issuer could not be had.',
  },
  service_unavailable: { status: 503, message: 'A part of the service is unavailable. Try again.' },
  upgrade_under_way: {
    status: 503,
    message:
      'The nodes are being upgraded, and none that is there knows all of this request yet. Nothing was done. Try again once the upgrade is over.',
  },
  auth_login_db_error: {
    status: 503,
    message: 'Login is unavailable: the database does not answer.',
  },
  auth_refresh_db_error: {
    status: 503,
    message: 'Refreshing is unavailable: the database does not answer.',
  },
  auth_webauthn_db_error: {
    status: 503,
    message: 'Passkey login is unavailable: the database does not answer.',
  },
  auth_sso_db_error: {
    status: 503,
    message: 'Single sign-on is unavailable: the database does not answer.',
  },
  timeout: { status: 504, message: 'The request took too long.' },
  auth_sso_provider_timeout: {
    status: 504,
    message: 'The identity provider did not answer in time.',
  },
} as const satisfies Record<string, { readonly status: number; readonly message: string }>;

export type ErrorCode = keyof typeof errorTable;
