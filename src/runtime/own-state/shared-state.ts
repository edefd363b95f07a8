/**
 * What admission needs of the Secrets that only the leader and its followers read. The leader copies it into the Secret
 * with the serving certificate: a webhook process reads no other Secret.
 */
import { isDeepStrictEqual } from 'node:util';

import { isJsonObject, valueIn, type JsonValue } from '../../json/json.ts';
import { orAborted } from '../../kube/clock.ts';
import { secrets } from '../../kube/well-known.ts';
import { SERVING_SECRET, SHARED_STATE_KEY } from '../../pki/annotations.ts';
import { base64, textOf, type SecretData } from '../../pki/secret-data.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import { createListeners } from '../listeners.ts';
import { watch, type WatchContext, type Watched } from '../watch.ts';

export interface SharedState {
  /** The data of the Secret `gatehouse-webhook-path`. */
  readonly paths: SecretData;
  /** The data of the Secret `gatehouse-reads`. */
  readonly reads: SecretData;
  /** The user name of the leader; undefined: unknown. */
  readonly user?: string | undefined;
}

/** Undefined if the Secret has no state, or none that this version can read. */
export function stateIn(secret: Secret | undefined): SharedState | undefined {
  const state = parsed(textOf(secret?.data, SHARED_STATE_KEY) ?? '');
  const [paths, reads, user] = ['paths', 'reads', 'user'].map((key) => valueIn(state, key));
  if (!isSecretData(paths) || !isSecretData(reads)) return undefined;
  return { paths, reads, ...(typeof user === 'string' ? { user } : {}) };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const isSecretData = (value: JsonValue | undefined): value is Readonly<Record<string, string>> =>
  isJsonObject(value) && Object.values(value).every((one) => typeof one === 'string');

export const withState = (secret: Secret, state: SharedState): Secret => ({
  ...secret,
  data: { ...secret.data, [SHARED_STATE_KEY]: base64(JSON.stringify(state)) },
});

/** The one Secret that a webhook process reads. */
export const watchServingSecret = (
  context: WatchContext & { readonly config: { readonly namespace: string } },
  signal: AbortSignal,
): Watched<Secret> =>
  watch<Secret>(
    context,
    {
      resource: secrets,
      namespace: context.config.namespace,
      fieldSelector: `metadata.name=${SERVING_SECRET}`,
    },
    signal,
  );

export type SharedStateFollower = ReturnType<typeof followSharedState>;

/** On every replica. The last known state stays while the Secret has none: the leader writes it again at once. */
export function followSharedState(
  { store, onChange }: Pick<Watched<Secret>, 'store' | 'onChange'>,
  signal: AbortSignal,
) {
  let state: SharedState | undefined;
  const known = Promise.withResolvers<undefined>();
  const listeners = createListeners<[state: SharedState]>();
  onChange((key) => {
    const next = stateIn(store.get(key));
    if (next === undefined || isDeepStrictEqual(next, state)) return;
    state = next;
    known.resolve(undefined);
    listeners.tell(next);
  }, signal);
  return {
    /** Undefined until a leader has written it. */
    current: () => state,
    /** Resolves when there is a state. @throws the reason of `waiting` on abort */
    whenKnown: async (waiting: AbortSignal): Promise<void> => {
      await orAborted(known.promise, waiting);
    },
    onChange: listeners.add,
  };
}
