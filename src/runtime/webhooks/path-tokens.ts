/** The path tokens of the webhooks: every replica follows the Secret that holds them, and the leader rotates them. */
import { createHash, randomBytes } from 'node:crypto';
import {
  firstPathTokens,
  isAnyToken,
  nextPathTokens,
  parsePathTokens,
  PATH_TOKEN_BYTES,
  tokensIn,
  withPathTokens,
  type PathTokens,
} from '../../admission/webhooks/path-tokens.ts';
import type { KubeClient } from '../../kube/client.ts';
import { secrets } from '../../kube/well-known.ts';
import type { Log } from '../../log.ts';
import { SERVING_SECRET, TLS_CERT_KEY } from '../../pki/annotations.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import type { PathVerdict } from '../../server/admission-routes.ts';
import { ownStateLabels } from '../certificates/ca-bundle.ts';
import type { Context } from '../context.ts';
import { requeueIn, startController, type Reconcile } from '../controller.ts';
import { createListeners } from '../listeners.ts';
import { watch } from '../watch.ts';
import { readConfigurations } from './installed-webhooks.ts';

export const PATH_SECRET = 'gatehouse-webhook-path';

/** In milliseconds. The API server learns of new webhook entries by a watch. */
const LEAST_GRACE_MS = 10_000;
type LearntTokens = Pick<PathTokens, 'current'> & Partial<PathTokens>;
export type AcceptedPaths = ReturnType<typeof createAcceptedPaths>;

/**
 * `isListed`: the Secret has been read, or is absent. `grace`: which dropped tokens are accepted a while longer. `used`: those in
 * stored entries, because a copy of the Secret from a backup has others.
 */
export function createAcceptedPaths(
  isListed: () => boolean,
  overlapMs: number,
  grace: 'all' | 'used' = 'all',
  now = () => performance.now(),
) {
  const graceMs = Math.max(overlapMs, LEAST_GRACE_MS);
  let known: LearntTokens | undefined;
  let inUse: readonly string[] = [];
  const accepted = new Map<string, { readonly until: number; readonly isUsed: boolean }>();
  const listeners = createListeners<[]>();
  const accept = (): void => {
    const named = [known?.previous, known?.current, known?.next, ...inUse];
    for (const [token, { until, isUsed }] of accepted) {
      const isNamed = named.includes(token);
      if (until < now() || (grace === 'used' && !isNamed && !isUsed)) accepted.delete(token);
      else if (!isNamed) accepted.set(token, { until: Math.min(until, now() + graceMs), isUsed });
    }
    for (const token of named) {
      if (token === undefined) continue;
      const isUsed = inUse.includes(token) || accepted.get(token)?.isUsed === true;
      accepted.set(token, { until: Infinity, isUsed });
    }
  };
  return {
    current: (): string | undefined => known?.current,
    learn: (tokens: LearntTokens | undefined): void => {
      known = tokens ?? known;
      accept();
      listeners.tell();
    },
    /** The tokens that the stored entries name: after a rollback or a restore, the Secret may have others. */
    observe: (tokens: readonly string[]): void => {
      inUse = tokens;
      accept();
    },
    onChange: listeners.add,
    /** Without a Secret, Gatehouse is new, or a leader of an older version writes paths without a token. */
    judge: (token: string): PathVerdict => {
      const valid = [...accepted].flatMap(([one, { until }]) => (until < now() ? [] : [one]));
      if (isAnyToken(token, valid)) return 'known';
      if (known !== undefined) return 'unknown';
      return token === '' && isListed() ? 'known' : 'unread';
    },
    problem: (): string | undefined =>
      known !== undefined || isListed()
        ? undefined
        : 'the tokens of the webhook paths have not been read yet',
  };
}

export function followPathTokens(context: Context, signal: AbortSignal): AcceptedPaths {
  const { namespace, caPropagationWaitMs } = context.config;
  const watched = watch<Secret>(context, { resource: secrets, namespace, name: PATH_SECRET }, signal);
  const paths = createAcceptedPaths(watched.hasSynced, caPropagationWaitMs);
  watched.onChange((key) => {
    paths.learn(parsePathTokens(watched.store.get(key)?.data));
  });
  return paths;
}

export async function readTokensInUse(
  client: Pick<KubeClient, 'get'>,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const found = await Promise.all(readConfigurations(client, signal));
  return tokensIn(found.flatMap((configuration) => configuration?.webhooks ?? []));
}

const RECHECK_MS = 60_000;
const again = (ms: number) => requeueIn(ms, new Date());

interface PathRotation {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'replace'>;
  readonly namespace: string;
  readonly overlapMs: number;
  readonly now: () => number;
  readonly random: () => string;
  readonly log: Log;
}

/** The leader times each step: it must have seen the same tokens, with only the current one in use, for the whole overlap. */
export function createPathTokensReconciler(rotation: PathRotation): Reconcile {
  const { client, namespace, overlapMs, now, random, log } = rotation;
  let settled: { readonly state: string; readonly since: number } | undefined;
  const write = async (live: Secret | undefined, tokens: PathTokens, signal: AbortSignal): Promise<void> => {
    const labels = { ...live?.metadata?.labels, ...ownStateLabels };
    const metadata = { ...live?.metadata, namespace, name: PATH_SECRET, labels };
    const secret = { type: 'gatehouse.dev/webhook-path', ...live, metadata, data: withPathTokens(tokens) };
    await (live === undefined ? client.create : client.replace)<Secret>(secrets, secret, { signal });
  };
  return async (_key, signal) => {
    const live = await client.get<Secret>(secrets, { namespace, name: PATH_SECRET }, { signal });
    const tokens = parsePathTokens(live?.data);
    const inUse = await readTokensInUse(client, signal);

    if (tokens === undefined) {
      await write(live, firstPathTokens(inUse, random), signal);
      log.info({ kept: inUse.length > 0 }, 'created the tokens of the webhook paths');
      return again(0);
    }
    const state = JSON.stringify([tokens, inUse]);
    if (settled?.state !== state) settled = { state, since: now() };
    const left = settled.since + overlapMs - now();
    if (left > 0 || inUse.some((token) => token !== tokens.current))
      return again(Math.min(RECHECK_MS, Math.max(left, 1_000)));
    const serving = await client.get<Secret>(secrets, { namespace, name: SERVING_SECRET }, { signal });
    const certificate = serving?.data?.[TLS_CERT_KEY];
    const id = certificate === undefined ? undefined : createHash('sha256').update(certificate).digest('hex');
    const next = nextPathTokens(tokens, id, random);
    if (next === undefined) return again(Math.min(RECHECK_MS, Math.max(overlapMs, 1_000)));
    await write(live, next, signal);
    const step = next.current === tokens.current ? 'retired' : 'rotated';
    log.info({ step }, 'changed the tokens of the webhook paths');
    return again(0);
  };
}

export function startPathRotation(
  context: Context,
  paths: Pick<AcceptedPaths, 'onChange'>,
  signal: AbortSignal,
) {
  const { client, config, log } = context;
  const reconcile = createPathTokensReconciler({
    client,
    namespace: config.namespace,
    overlapMs: config.caPropagationWaitMs,
    log,
    now: () => performance.now(),
    random: () => randomBytes(PATH_TOKEN_BYTES).toString('hex'),
  });
  const on = [paths.onChange];
  return startController(context, { name: 'path-tokens', key: PATH_SECRET, on, reconcile }, signal);
}
