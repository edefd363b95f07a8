import { beforeEach, describe, expect, test } from 'vitest';
import { createCluster, NEVER, OWN_NAMESPACE, silent } from '../../../test/support/runtime/fixtures.ts';
import type { LiveWebhookConfiguration } from '../../admission/webhooks/dev-entries.ts';
import { parsePathTokens, withPathTokens } from '../../admission/webhooks/path-tokens.ts';
import { secrets, validatingWebhookConfigurations } from '../../kube/well-known.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import { createAcceptedPaths, createPathTokensReconciler, PATH_SECRET } from './path-tokens.ts';

const [A = '', B = '', C = '', D = ''] = ['a', 'b', 'c', 'd'].map((digit) => digit.repeat(32));
const OVERLAP = 600_000;

describe('a replica', () => {
  let listed: boolean;
  let time: number;
  let paths: ReturnType<typeof createAcceptedPaths>;
  const clock = () => time;
  const accepting = (grace: 'all' | 'used') => createAcceptedPaths(() => listed, OVERLAP, grace, clock);
  beforeEach(() => {
    listed = true;
    time = 0;
    paths = accepting('all');
  });
  const judged = (...tokens: readonly string[]) => tokens.map((token) => paths.judge(token));

  test('asks clients to retry until it has read the Secret', () => {
    listed = false;
    expect(judged('', A)).toEqual(['unread', 'unread']);
    expect(paths.problem()).toBeDefined();
    listed = true;
    expect(judged('', A)).toEqual(['known', 'unread']); // no Secret: an older version leads, or Gatehouse is new
    expect(paths.problem()).toBeUndefined();
  });

  test('accepts the previous, the current and the next token, and no other', () => {
    paths.learn({ previous: A, current: B, next: C });
    expect(judged(A, B, C, D, '')).toEqual(['known', 'known', 'known', 'unknown', 'unknown']);
    expect(paths.current()).toBe(B);
  });

  test('accepts a dropped token for the overlap, however often the Secret changes', () => {
    paths.learn({ current: A, next: B });
    time = 10;
    paths.learn({ current: B, next: C });
    time = OVERLAP;
    paths.learn({ current: C, next: D });
    expect(judged(A, B)).toEqual(['known', 'known']);
    time = OVERLAP + 11;
    expect(judged(A, B, C)).toEqual(['unknown', 'known', 'known']);
  });

  test('accepts a token that the stored entries contain, no token, and dropped tokens for some time', () => {
    paths.observe(['', C]);
    paths.learn({ current: A, next: B });
    expect(judged('', C, A, B, D)).toEqual(['known', 'known', 'known', 'known', 'unknown']);
    expect(paths.current()).toBe(A);
    paths.observe([A]);
    time = OVERLAP;
    expect(judged('', C)).toEqual(['known', 'known']);
    time = OVERLAP + 1;
    expect(judged('', C, A, B)).toEqual(['unknown', 'unknown', 'known', 'known']);
  });

  test('drops unused tokens of a copy that was restored from a backup immediately', () => {
    listed = false;
    paths = accepting('used');
    paths.learn({ current: A, next: B });
    paths.observe([A]);
    paths.learn({ current: C, next: D });
    expect(judged(A, B, C)).toEqual(['known', 'unknown', 'known']);
    paths.learn({ current: A, next: B });
    expect(judged(A, B, C, D)).toEqual(['known', 'known', 'unknown', 'unknown']);
    paths.learn({ current: B, next: D });
    paths.observe([B]);
    time = OVERLAP;
    expect(judged(A, B)).toEqual(['known', 'known']);
    time = OVERLAP + 1;
    expect(judged(A, B)).toEqual(['unknown', 'known']);
  });
});

describe('the leader', () => {
  const { client, objects, reset } = createCluster();
  const stored = objects<Secret>(secrets);
  const validating = objects<LiveWebhookConfiguration>(validatingWebhookConfigurations);
  let time: number;
  let made: string[];
  let reconcile: () => Promise<unknown>;
  const create = () => {
    const reconciler = createPathTokensReconciler({
      client,
      namespace: OWN_NAMESPACE,
      overlapMs: OVERLAP,
      now: () => time,
      random: () => made.shift() ?? D,
      log: silent,
    });
    return () => reconciler(PATH_SECRET, NEVER);
  };
  beforeEach(() => {
    reset();
    time = 0;
    made = [A, B, C];
    reconcile = create();
  });
  const KEY = `${OWN_NAMESPACE}/${PATH_SECRET}`;
  const tokens = () => parsePathTokens(stored.read(KEY)?.data);
  const serve = (certificate: string) => {
    const metadata = { namespace: OWN_NAMESPACE, name: 'gatehouse-serving' };
    stored.add({ metadata, data: { 'tls.crt': certificate } });
  };
  /** The entries that the API server uses. */
  const use = (...paths: readonly string[]) => {
    validating.add({
      metadata: { name: 'gatehouse' },
      webhooks: paths.map((path) => ({ name: 'x', clientConfig: { service: { path } } })) as never,
    });
  };

  test('creates the Secret, and rotates it with the serving certificate after the overlap', async () => {
    serve('one');
    await reconcile();
    expect(tokens()).toMatchObject({ current: A, next: B });
    use(`/validate/${A}/e`);
    await reconcile();
    time = OVERLAP - 1;
    await reconcile();
    expect(tokens()).toMatchObject({ current: A, next: B });
    time = OVERLAP;
    await reconcile();
    expect(tokens()).toMatchObject({ current: A, next: B, certificate: expect.any(String) as string });
    serve('two');
    await reconcile();
    time = 2 * OVERLAP;
    await reconcile();
    expect(tokens()).toMatchObject({ previous: A, current: B, next: C });
  });

  test('keeps each token that an entry still contains', async () => {
    const metadata = { namespace: OWN_NAMESPACE, name: PATH_SECRET };
    stored.add({ metadata, data: withPathTokens({ previous: A, current: B, next: C }) });
    use(`/validate/${A}/e`);
    await reconcile();
    time = 10 * OVERLAP;
    await reconcile();
    expect(tokens()).toMatchObject({ previous: A, current: B });
    use(`/validate/${B}/e`);
    await reconcile();
    expect(tokens()).toMatchObject({ previous: A, current: B });
    time = 11 * OVERLAP;
    await reconcile();
    expect(tokens()).toMatchObject({ previous: undefined, current: B, next: C });
  });
});
