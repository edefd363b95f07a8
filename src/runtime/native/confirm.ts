/** On the leader: confirms that the API server enforces a compiled policy, by dry runs that only this policy refuses or changes. */
import { isTypeChecked, TYPES_UNCHECKED } from '../../admission/native/installed-policy.ts';
import { isMutating } from '../../admission/native/native-policy.ts';
import { isChangeOf, isRefusalOf, probeOf } from '../../admission/native/probe.ts';
import type { ConfirmedPair } from '../../admission/native/release.ts';
import type { NormalSelector } from '../../json/label-selector.ts';
import { messageOf } from '../../json/abort.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { ApiError } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { UNIQUE_CLAIMS } from '../resources.ts';

export interface ProbeOptions {
  readonly client: Pick<KubeClient, 'create'>;
  readonly now: () => Date;
  readonly monotonic: () => number;
}

/** Each probe has its own connection, which may lead to another API server: of three, 18 probes miss one in 0.07 %. */
const AT_ONCE = 6;
const ROUNDS = 3;
/** API servers read policies again each second. */
const SETTLE_MS = 3_000;
const AGAIN_MS = 60_000;

export interface Subject {
  readonly pair: ConfirmedPair;
  readonly policy: KubeObject;
  readonly objectSelector: NormalSelector;
  readonly answers: boolean;
}

interface Progress {
  readonly of: string;
  readonly startedAt: number;
  readonly since: number;
  readonly answered: number;
  readonly isConfirmed: boolean;
  readonly probedAt: number;
}

/** How long a version may take, in milliseconds: API servers usually need about a second. */
const PATIENCE_MS = 30_000;

export const PENDING = 'the API server has possibly not loaded it yet: probes are running';
const ADMITTED = 'an API server admits a probe that this policy should refuse or change';
const UNANSWERED = 'an API server does not answer a probe';

export function createConfirmer({ client, now, monotonic }: ProbeOptions) {
  const progress = new Map<string, Progress>();

  /** @returns whether this version of the policy answered; undefined: unknown. Or why it cannot be found out */
  const probe = async (
    { pair: { digest }, objectSelector }: Subject,
    signal: AbortSignal,
  ): Promise<Answer> => {
    const claim = probeOf(digest, objectSelector, now());
    if (claim === undefined) return 'no probe can satisfy its objectSelector';
    try {
      const options = { dryRun: true, isLastOnConnection: true, signal };
      return isChangeOf(digest, await client.create(UNIQUE_CLAIMS, claim, options));
    } catch (error) {
      signal.throwIfAborted();
      if (isRefusalOf(digest, messageOf(error))) return true;
      const isAnswer = error instanceof ApiError && error.code < 500 && error.code !== 429;
      return isAnswer ? `the probe failed otherwise: ${error.message}` : undefined;
    }
  };

  const after = (before: Progress, answered: boolean | undefined): Progress => {
    const at = monotonic();
    if (answered === undefined) return { ...before, probedAt: at };
    if (!answered) return { ...before, since: at, answered: 0, isConfirmed: false, probedAt: at };
    const count = before.answered + 1;
    const since = before.answered === 0 && !before.isConfirmed ? at : before.since;
    const isConfirmed = before.isConfirmed || (count >= ROUNDS && at - since >= SETTLE_MS);
    return { ...before, since, answered: count, isConfirmed, probedAt: at };
  };

  return {
    /** @param known what the status says: another leader has confirmed it */
    obstacle: async (
      subject: Subject,
      known: ConfirmedPair | undefined,
      signal: AbortSignal,
    ): Promise<string | undefined> => {
      const { pair, policy, answers } = subject;
      const { name } = pair;
      const version = textOf(pair);
      const found = progress.get(name);
      // kube-controller-manager checks no types of MutatingAdmissionPolicies.
      if (!isMutating(name) && !isTypeChecked(policy)) {
        progress.delete(name);
        return TYPES_UNCHECKED;
      }
      const fresh: Progress = {
        of: version,
        startedAt: monotonic(),
        since: monotonic(),
        answered: 0,
        isConfirmed: known !== undefined && textOf(known) === version,
        probedAt: Number.NEGATIVE_INFINITY,
      };
      const before = found?.of === version ? found : fresh;
      progress.set(name, before);
      if (!answers)
        return before.isConfirmed || monotonic() - before.since >= SETTLE_MS ? undefined : PENDING;
      if (before.isConfirmed && monotonic() - before.probedAt < AGAIN_MS) return undefined;
      const answered = summary(
        await Promise.all(Array.from({ length: AT_ONCE }, () => probe(subject, signal))),
      );
      if (typeof answered === 'string') {
        progress.delete(name);
        return answered;
      }
      const next = after(before, answered);
      progress.set(name, next);
      if (next.isConfirmed) return undefined;
      if (next.answered > 0 || monotonic() - next.startedAt <= PATIENCE_MS) return PENDING;
      return answered === undefined ? UNANSWERED : ADMITTED;
    },
    keepOnly: (names: ReadonlySet<string>): void => {
      for (const name of progress.keys()) if (!names.has(name)) progress.delete(name);
    },
  };
}

const textOf = ({ digest, policy, binding }: ConfirmedPair): string => [digest, policy, binding].join(' ');

type Answer = boolean | undefined | string;

/** One API server that does not enforce the policy is enough to keep its checks in the webhook. */
function summary(answers: readonly Answer[]): Answer {
  if (answers.includes(false)) return false;
  return answers.every((one) => one === true) ? true : answers.find((one) => one !== true);
}
