/** Whether a developer's machine answers for the cluster, and whether it has left its entries behind. */
import { devSessionOf, type DevSessionState } from '../../../../admission/webhooks/dev-session.ts';
import { WEBHOOK_CONFIGURATION_NAME } from '../../../../admission/webhooks/webhook-configurations.ts';
import type { Evidence } from '../evidence.ts';
import { problem, warning, type Finding } from '../finding.ts';
import { valueOf } from '../look.ts';

const CHECK = 'dev-session';
/** The leader puts entries back within a second. */
const OVERDUE_MS = 10_000;

type Lent = Pick<Evidence, 'namespace' | 'now' | 'mutating' | 'validating'>;

/** What cannot be read is told by the check webhook-configurations. */
export function checkDevSession(evidence: Lent): readonly Finding[] {
  const states = [valueOf(evidence.mutating), valueOf(evidence.validating)].map((live): DevSessionState =>
    devSessionOf(live ?? {}, evidence.now),
  );
  // One session has both configurations, most of the time, and renews them one after the other.
  const bySession = new Map(states.map((state) => [`${state.kind} ${sessionOf(state)?.id ?? ''}`, state]));
  return [...bySession.values()].flatMap((state) => judge(state, evidence));
}

const sessionOf = (state: DevSessionState) => (state.kind === 'none' ? undefined : state.session);

function judge(state: DevSessionState, { namespace, now }: Lent): readonly Finding[] {
  switch (state.kind) {
    case 'none':
      return [];
    case 'valid': {
      const { holder, url, expiresAt } = state.session;
      return [
        warning(
          CHECK,
          `${holder} serves the webhook entries of this cluster at ${url}, until ${expiresAt.toISOString()} unless that is renewed`,
          `what is written here waits for that machine; if it should not, ask ${holder} to end gatehouse serve --dev-url`,
        ),
      ];
    }
    case 'over': {
      const { session } = state;
      const whose =
        session === undefined
          ? 'a session that cannot be made out'
          : `the session of ${session.holder} at ${session.url}, which ended at ${session.expiresAt.toISOString()}`;
      const seen = `webhook entries still lead to ${whose}`;
      if (session !== undefined && isRecent(session.expiresAt, now))
        return [warning(CHECK, seen, 'the leader puts them back: run it again in a moment')];
      return [
        problem(
          CHECK,
          seen,
          `the leader puts them back, if there is one: see the check leader, kubectl -n ${namespace} logs deployment/gatehouse. Without a ` +
            `Gatehouse in the cluster: kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration ${WEBHOOK_CONFIGURATION_NAME}`,
        ),
      ];
    }
  }
}

/** A note that claims too much time is not honoured at all, and ends in the future. */
const isRecent = (end: Date, now: Date): boolean => {
  const sinceMs = now.getTime() - end.getTime();
  return sinceMs >= 0 && sinceMs < OVERDUE_MS;
};
