/**
 * Stories of several gateways. They have one cluster, since its start costs more than most of them;
 * each has tenants of its own. Where one changes the cluster for those behind it, its place says so.
 */
import './gateways/cluster.ts';
import './gateways/revocation.ts';
import './gateways/clocks.ts';
import './gateways/database-cut-off.ts';
import './gateways/live-values.ts';
import './gateways/repl.ts';
// It begins before these, and takes its time.
import './gateways/cut-off.ts';
// Kills the third gateway.
import './gateways/watch.ts';
import './gateways/sso-cluster.ts';
// The administrator of the platform becomes a member of a tenant.
import './gateways/visits.ts';
// Puts the platform under four eyes.
import './gateways/rollouts.ts';
