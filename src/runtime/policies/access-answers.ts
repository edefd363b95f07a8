/** The answers of the API server's authorizer to the expressions of policies. */
import type { AccessAnswers } from '../../admission/policy/world.ts';
import type { UserInfo } from '../../admission/review/request.ts';
import type { CelDecision, CelQuestion } from '../../cel/library/authorizer.ts';
import {
  decideAccess,
  type AccessDecision,
  type AccessQuestion,
  type AccessSubject,
  type PathQuestion,
} from '../../kube/access.ts';
import type { KubeClient } from '../../kube/client.ts';
import { inTurn } from '../access-reviews.ts';

/** Revoked access may last that long, and only in requests that are allowed: before a refusal, Gatehouse asks again. */
const FRESH_MS = 5_000;
/** These limit the memory: users can ask about any name, of any length. */
const MOST_ANSWERS = 5_000;
const LONGEST_KEY = 4_096;

interface Known {
  readonly decision: CelDecision;
  /** On the clock of `now`. */
  readonly until: number;
}

/**
 * Create one per process: users take turns, so that many questions of one delay no other.
 *
 * @param now in milliseconds, on a clock that never goes back
 */
export function createAccessAnswers(
  client: Pick<KubeClient, 'create'>,
  now: () => number,
  limit?: number,
): AccessAnswers {
  /** The oldest answer comes first. */
  const answers = new Map<string, Known>();
  const send = inTurn<AccessQuestion | PathQuestion, AccessDecision>(
    (subject, question, signal) => decideAccess(client, subject, question, { signal }),
    limit,
  );

  return {
    known: (user, question) => {
      const found = answers.get(keyOf(user, question));
      return found !== undefined && found.until > now() ? found.decision : undefined;
    },
    ask: async (user, question, signal) => {
      const key = keyOf(user, question);
      const until = now() + FRESH_MS; // the answer may be as old as the question
      const decision = await send(subjectOf(user, question), attributesOf(question), signal);
      if (key.length > LONGEST_KEY) return decision;
      answers.delete(key);
      answers.set(key, { decision, until });
      for (const [oldest, { until: end }] of answers) {
        if (answers.size <= MOST_ANSWERS && end > now()) break;
        answers.delete(oldest);
      }
      return decision;
    },
  };
}

/** Everything that the authorizer sees of a user counts. */
const keyOf = ({ username, uid, groups, extra }: UserInfo, question: CelQuestion): string =>
  JSON.stringify([username, uid, groups, extra, question]);

/** As in the API server, a service account of an expression has the groups of its namespace only. */
function subjectOf(user: UserInfo, { serviceAccount }: CelQuestion): AccessSubject {
  if (serviceAccount === undefined) return user;
  const { namespace, name } = serviceAccount;
  return {
    username: `system:serviceaccount:${namespace}:${name}`,
    uid: '',
    groups: ['system:serviceaccounts', `system:serviceaccounts:${namespace}`],
    extra: {},
  };
}

function attributesOf(question: CelQuestion): AccessQuestion | PathQuestion {
  const { verb } = question;
  if (question.kind === 'path') return { path: question.path, verb };
  const { group, resource, subresource, namespace, name, fieldSelector, labelSelector } = question;
  return {
    ...{ verb, group, resource, subresource, namespace, name },
    ...(fieldSelector === undefined ? {} : { fieldSelector: { rawSelector: fieldSelector } }),
    ...(labelSelector === undefined ? {} : { labelSelector: { rawSelector: labelSelector } }),
  };
}
