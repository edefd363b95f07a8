/** Checks whether a developer machine serves the webhooks (`gatehouse serve --dev-url`), or has left entries behind. */
import { devSessionOf, type DevSessionState } from '../../../../admission/webhooks/dev-session.ts';
import { WEBHOOK_CONFIGURATION_NAME } from '../../../../admission/webhooks/webhook-configurations.ts';
import type { InstallationReadings } from '../../read-cluster/read-installation.ts';
import { valueOf } from '../../read-cluster/reading.ts';
import { logsOf, problem, warning, type Results } from '../finding.ts';

/** The leader restores entries within a second. */
const OVERDUE_MS = 10_000;

/** The check webhook-configurations reports configurations that cannot be read. */
export function checkDevSession(readings: InstallationReadings): Results {
  const states = [valueOf(readings.mutating), valueOf(readings.validating)].map((live): DevSessionState =>
    devSessionOf(live ?? {}, readings.now),
  );
  // A session usually owns both configurations and renews them one after the other: report it once.
  const bySession = new Map(states.map((state) => [`${state.kind} ${sessionOf(state)?.id ?? ''}`, state]));
  return [...bySession.values()].flatMap((state) => judge(state, readings));
}

const sessionOf = (state: DevSessionState) => (state.kind === 'none' ? undefined : state.session);

function judge(state: DevSessionState, { namespace, now }: InstallationReadings): Results {
  switch (state.kind) {
    case 'none':
      return [];
    case 'valid': {
      const { holder, url, expiresAt } = state.session;
      return warning(
        `${holder} serves the webhook entries of this cluster at ${url} until ${expiresAt.toISOString()}, or longer if renewed`,
        `writes in this cluster depend on that machine; if this is not intended, ask ${holder} to stop gatehouse serve --dev-url`,
      );
    }
    case 'over': {
      const { session } = state;
      const whose =
        session === undefined
          ? 'an unreadable session'
          : `the session of ${session.holder} at ${session.url}, which ended at ${session.expiresAt.toISOString()}`;
      const seen = `webhook entries still point to ${whose}`;
      if (session !== undefined && isRecent(session.expiresAt, now))
        return warning(seen, 'the leader restores the entries: run this command again in a moment');
      return problem(
        seen,
        `the leader restores the entries; if they stay, see the check leader and ${logsOf(namespace)}. Without a ` +
          `Gatehouse in the cluster: kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration ${WEBHOOK_CONFIGURATION_NAME}`,
      );
    }
  }
}

/** A session that claims more time than allowed is over although it ends in the future. */
function isRecent(end: Date, now: Date): boolean {
  const sinceMs = now.getTime() - end.getTime();
  return sinceMs >= 0 && sinceMs < OVERDUE_MS;
}
