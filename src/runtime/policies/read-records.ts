/**
 * Proof that the author of a policy may read what the policy reads: a MAC in an annotation. Policies can be written
 * while the webhook is down, but the MAC requires the key. The leader writes the same MAC next to `status.inForce`.
 */
import { createHmac, randomBytes } from 'node:crypto';

import { disclosingText, readsOf, readsSecrets } from '../../admission/policy/author-reads.ts';
import { STATE_ENTRY } from '../../admission/webhooks/protect-own-kinds.ts';
import type { AdmissionPolicy, AdmissionPolicySpec } from '../../api/admission-policy.ts';
import type { KubeClient } from '../../kube/client.ts';
import { secrets } from '../../kube/well-known.ts';
import type { SecretData } from '../../pki/secret-data.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import { ownStateLabels } from '../certificates/ca-bundle.ts';
import type { Context } from '../context.ts';
import { AWAIT_CHANGE, requeueIn, startController, type Reconcile } from '../controller.ts';
import { ADMISSION_POLICIES } from '../resources.ts';
import { watch } from '../watch.ts';
import type { watchInstalledWebhooks } from '../webhooks/installed-webhooks.ts';

export const READS_REVIEWED = 'gatehouse.dev/reads-reviewed';
/** Holds the key, and the MACs of the policies that were written before Gatehouse reviewed reads. */
export const READS_SECRET = 'gatehouse-reads';
const KEY = 'key';
const EARLIER = 'earlier';

/** `earlier`: written before Gatehouse reviewed reads, and doesn't read Secrets. */
export type ReadsVerdict = 'reviewed' | 'earlier' | 'unreviewed';

export type ReadRecords = ReturnType<typeof createReadRecords>;

export function createReadRecords(data: () => SecretData | undefined) {
  const dataOf = (key: string): Buffer | undefined => {
    const text = data()?.[key];
    return text === undefined ? undefined : Buffer.from(text, 'base64');
  };
  const sign = (text: string): string | undefined => {
    const key = dataOf(KEY);
    return key && createHmac('sha256', key).update(`v1\n${text}`).digest('base64url');
  };
  const recordOf = (name: string, spec: AdmissionPolicySpec): string | undefined =>
    sign(`${name}\n${disclosingText(spec)}`);
  return {
    hasKey: () => dataOf(KEY) !== undefined,
    recordOf,
    /** Signs what replicas tell the leader. Undefined while there is no key. */
    prove: (text: string): string | undefined => sign(`proof\n${text}`),
    /** Signs the records of paused objects. Undefined while there is no key. */
    quiesce: (): ((text: string) => string) | undefined => {
      const key = dataOf(KEY);
      return key && ((text) => createHmac('sha256', key).update(`quiesce\n${text}`).digest('base64url'));
    },
    verdict: (name: string, spec: AdmissionPolicySpec, record: string | undefined): ReadsVerdict => {
      const reads = readsOf(spec);
      if (reads.length === 0) return 'reviewed';
      const expected = recordOf(name, spec);
      if (expected !== undefined && record === expected) return 'reviewed';
      if (readsSecrets(reads)) return 'unreviewed';
      const earlier = dataOf(EARLIER)?.toString().split('\n');
      if (earlier === undefined) return 'earlier';
      return expected !== undefined && earlier.includes(expected) ? 'earlier' : 'unreviewed';
    },
  };
}

export interface FollowedRecords extends ReadRecords {
  readonly hasSynced: () => boolean;
  readonly whenSynced: (signal: AbortSignal) => Promise<void>;
  readonly onChange: (listener: () => void, signal?: AbortSignal) => void;
}

export function followReadRecords(context: Context, signal: AbortSignal): FollowedRecords {
  const { namespace } = context.config;
  const options = { resource: secrets, namespace, name: READS_SECRET };
  const { store, ...watched } = watch<Secret>(context, options, signal);
  return { ...watched, ...createReadRecords(() => store.list()[0]?.data) };
}

/** The API server learns of a webhook configuration through a watch: in this time, in milliseconds. */
const SETTLE_MS = 5_000;

/** Once the API server calls the webhook, records the existing policies: they remain in force without a review. */
export function createReadRecordsReconciler(
  client: Pick<KubeClient, 'get' | 'create' | 'replace' | 'listAll'>,
  namespace: string,
  installed: () => boolean,
  now: () => Date,
): Reconcile {
  let listAt: number | undefined;
  return async (_key, signal) => {
    const found = await client.get<Secret>(secrets, { namespace, name: READS_SECRET }, { signal });
    if (found?.data?.[KEY] === undefined) {
      const metadata = { namespace, name: READS_SECRET, labels: ownStateLabels };
      const data = { [KEY]: randomBytes(32).toString('base64') };
      if (found === undefined)
        await client.create<Secret>(secrets, { metadata, type: 'Opaque', data }, { signal });
      else await client.replace<Secret>(secrets, { ...found, data }, { signal });
      return requeueIn(0, now());
    }
    if (found.data[EARLIER] !== undefined || !installed()) return AWAIT_CHANGE;
    listAt ??= now().getTime() + SETTLE_MS;
    if (now().getTime() < listAt) return { kind: 'requeue', at: new Date(listAt) };
    const { recordOf } = createReadRecords(() => found.data);
    const { items } = await client.listAll<AdmissionPolicy>(ADMISSION_POLICIES, { signal });
    const records = items.flatMap(({ metadata: { name = '' }, spec, status }) =>
      // The API server has validated status.inForce against the schema of the policy.
      [spec, status?.inForce?.spec as AdmissionPolicySpec | undefined].map(
        (one) => one && recordOf(name, one),
      ),
    );
    const earlier = Buffer.from(records.filter(Boolean).join('\n')).toString('base64');
    const data = { ...found.data, [EARLIER]: earlier };
    await client.replace<Secret>(secrets, { ...found, data }, { signal });
    return AWAIT_CHANGE;
  };
}

interface RecordSources {
  readonly records: Pick<FollowedRecords, 'onChange'>;
  readonly webhooks: ReturnType<typeof watchInstalledWebhooks>;
}

export function startReadRecords(
  context: Context,
  { records, webhooks }: RecordSources,
  signal: AbortSignal,
) {
  const isInstalled = () =>
    [...(webhooks.rules() ?? [])].some((rule) => rule.startsWith(`["${STATE_ENTRY}.mutate.`));
  const now = () => new Date();
  const reconcile = createReadRecordsReconciler(context.client, context.config.namespace, isInstalled, now);
  const on = [records.onChange, webhooks.onChange];
  return startController(context, { name: 'read-records', key: READS_SECRET, on, reconcile }, signal);
}
