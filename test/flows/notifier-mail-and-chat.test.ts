/** Notices by mail and in chat. They have one Strata. */
import './notifier/strata.ts';
import './notifier/mail-and-chat.ts';
// Stops Strata at its end.
import './notifier/teams.ts';
