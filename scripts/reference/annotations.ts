/** The labels and annotations that Gatehouse reads and writes, as a documentation page. */
import { OPENED_BY, OPENER_SCOPE, SWEEP_FINALIZER } from '../../src/restore/window.ts';
import { APPLIED, CONTROLLER_LABEL, OWNER_LABEL } from '../../src/controllers/owned-objects.ts';
import { INSTALLED_LABEL } from '../../src/admission/native/installed-policy.ts';
import { QUIESCE_ANNOTATION, QUIESCE_LABEL } from '../../src/restore/quiesce/plan.ts';
import { SOURCE_LABEL } from '../../src/restore/detected-window.ts';
import { SWEEP_DUE, EPOCH, ROLLBACK } from '../../src/restore/rollback.ts';
import { EXCLUDE_FROM_BACKUP_LABEL } from '../../src/api/group.ts';
import { OWNER_RECORD_ANNOTATION } from '../../src/api/owner-record.ts';
import { DEV_URL_ANNOTATION } from '../../src/admission/webhooks/dev-entries.ts';
import { CLAIM_POLICY_LABEL } from '../../src/admission/policy/unique/claim-state.ts';
import { DELETION_INTENT_LABEL } from '../../src/admission/policy/references/check-references.ts';
import { DELETION_LABEL, PROOF_ANNOTATION } from '../../src/admission/policy/references/deletion-record.ts';
import { PART_LABEL } from '../../src/cli/inspect/read-cluster/read-installation.ts';
import { COMPAT, NAMESPACES, PROPAGATION_WAIT, WITHOUT } from '../../src/runtime/leadership/own-lease.ts';
import { AGGREGATION_LABEL } from '../../src/runtime/policies/read-access.ts';
import { ACTIONS_LABEL } from '../../src/runtime/references/action-access.ts';
import { READS_REVIEWED } from '../../src/runtime/policies/read-records.ts';
import * as pki from '../../src/pki/annotations.ts';
import { cell, code, table, type File } from './page.ts';

type Entry = readonly [key: string, on: string, meaning: string];

const on = (object: string, meanings: Readonly<Record<string, string>>): readonly Entry[] =>
  Object.entries(meanings).map(([key, meaning]) => [key, object, meaning]);

const SERVICE = 'Service';
const TLS_SECRET = 'Secret with a serving cert';
const TARGET = 'webhook configuration, CustomResourceDefinition, APIService, ConfigMap';
const AUTHORITY = `Secret ${pki.AUTHORITY_SECRET}`;
const LEASE = 'Lease of the leader';
const CONFIGURATIONS = 'webhook configurations `gatehouse`';

const ASKED: readonly Entry[] = [
  ...on(SERVICE, {
    [pki.SERVING_CERT_SECRET_NAME]: 'Requests a serving cert in the Secret of this name.',
    [pki.CLIENT_CERT_SECRET_NAME]:
      'Requests a [client certificate](../certificates.md#client-certificates) in the Secret of this name. The annotations below with `serving-cert-` in their name exist for it with `client-cert-`, except `ports` and `adopt`.',
    [pki.SERVING_CERT_KEY_ALGORITHM]: 'The key algorithm: see [serving certificates](../certificates.md).',
    [pki.SERVING_CERT_PORTS]:
      'Names or numbers of the ports that present the serving cert, separated by commas, or `none`. The leader checks [whether servers have reloaded](../certificates.md#servers-that-do-not-reload). Default: each TCP port that answers with TLS.',
    [pki.SERVING_CERT_DURATION]: 'Lifetime of the serving cert, e.g. `90d` or `36h`.',
  }),
  ...on(`${SERVICE}; ${TLS_SECRET}`, {
    [pki.SERVING_CERT_RENEW_AFTER]:
      'How much of its lifetime the serving cert has passed when it is renewed, `20%` to `90%`. Default: `--serving-cert-renew-after`. On the Secret: the same, unless it is `66%`.',
  }),
  ...on(SERVICE, {
    [pki.SERVING_CERT_DNS_NAMES]:
      'Additional DNS names, separated by commas, in the domains that `--serving-cert-dns-suffixes` and `--serving-cert-namespace-suffixes` allow.',
    [pki.SERVING_CERT_CLUSTER_IPS]:
      '`true`: add the cluster IPs of the Service, if the operator allows them (`--serving-cert-cluster-ips`).',
    [pki.SERVING_CERT_POD_NAMES]:
      'For a headless Service: its pods, `db:3` for db-0 to db-2, or `db-0,db-7`, instead of the wildcard.',
    [pki.SERVING_CERT_WILDCARD]:
      '`true` or `false`: a wildcard for the pods. Default: `true` for headless Services without the annotation for pod names.',
    [pki.SERVING_CERT_SHORT_NAMES]:
      '`true`: add the names without `svc` (`db`, `db.prod`), which mean another Service in other namespaces. Default: `--serving-cert-short-names`.',
  }),
  ...on(`${SERVICE}; ${TLS_SECRET}`, {
    [pki.SERVING_CERT_OUTPUTS]:
      'Additional formats besides the PEM files, separated by commas. On the Secret: the files that Gatehouse owns.',
  }),
  ...on(SERVICE, {
    [pki.SERVING_CERT_KEYSTORE_PASSWORD]:
      'The Secret with the password of the key stores, `name` or `name/key`; the key is `password` if absent.',
    [pki.SERVING_CERT_REPLACE_SECRET]:
      '`true`: Gatehouse may delete and recreate a Secret of the Service that it cannot write (wrong type, immutable).',
  }),
  ...on('Deployment, StatefulSet, DaemonSet', {
    [pki.RESTART_ON_RENEWAL]:
      '`true`: restart the workload if its pods [do not load a renewed certificate](../certificates.md#restart-servers-automatically).',
  }),
  ...on('Secret', {
    [pki.SERVING_CERT_ADOPT]:
      'The name of the Service for which Gatehouse may take over this existing Secret.',
  }),
  ...on(TARGET, {
    [pki.INJECT_CABUNDLE]: 'Injects the CA bundle: `true`, or the names of webhooks, separated by commas.',
    [pki.INJECT_CABUNDLE_FROM]:
      'The CA bundle of a Secret (`namespace/name`) or a ConfigMap (`configmap/namespace/name`) instead of Gatehouse’s.',
  }),
  ...on('ConfigMap', {
    [pki.INJECT_CABUNDLE_KEY]: 'The key that holds the CA bundle, if not `ca.crt`.',
  }),
  ...on('Secret, ConfigMap', {
    [pki.ALLOW_DIRECT_INJECTION]:
      '`true`: its owner allows the use of its certificates as a CA bundle in any object.',
  }),
  ...on("ConfigMap in Gatehouse's namespace", {
    [pki.DISTRIBUTE_TO]:
      'Copies its [CA bundle](../certificates.md#one-bundle-in-many-namespaces) into the namespaces that this label selector selects; empty: all.',
  }),
  ...on('such a ConfigMap', {
    [pki.BUNDLE_SOURCES]:
      'What its bundle contains besides its own certificates: `authority` (default), `public`, both separated by a comma, or nothing.',
  }),
  ...on('such a ConfigMap', {
    [pki.BUNDLE_EXCLUDES]:
      'SHA-256 fingerprints of public roots that its bundle must not contain, separated by commas.',
  }),
  ...on(AUTHORITY, {
    [pki.ROTATE]: 'Requests a rotation, once for each value. The value is the reason.',
    [pki.DISTRUST]: 'Generations that clients must stop trusting, separated by commas.',
    [pki.NEW_AUTHORITY]:
      'Allows a new authority if the old one is lost. The value is the reason. Gatehouse then removes the annotation.',
  }),
];

const WRITTEN: readonly Entry[] = [
  ...on('Deployments of the Helm chart', {
    'gatehouse.dev/chart-replicas':
      'The number of replicas in the values when the chart last set it; see [scaling](../operating.md#scale).',
  }),
  ...on('paused objects', {
    [QUIESCE_ANNOTATION]:
      'The previous value of the field that a [restore window](../restore.md) has set, signed by Gatehouse.',
  }),
  ...on('what a [controller](../controllers.md) applies', {
    [APPLIED]: 'Fingerprint of what was applied last.',
  }),
  ...on(TLS_SECRET, {
    [pki.SERVING_CERT_SERVICE]:
      'The Service, in the namespace of the Secret. It marks the Secret as owned by Gatehouse.',
    [pki.SERVING_CERT_SERVICE_UID]: 'The uid of that Service when the Secret was last written.',
    [pki.SERVING_CERT_SECRET]:
      'The `namespace/name` of the Secret itself. A copy carries the place of its original, and Gatehouse leaves it alone.',
  }),
  ...on(`ConfigMap ${pki.CABUNDLE_CONFIGMAP}`, {
    [pki.SOURCE_ROOTS]:
      'The roots that the [sources of injected bundles](../certificates.md#options-of-a-bundle) hold, and those that they have dropped.',
  }),
  ...on('Deployment, StatefulSet, DaemonSet', {
    [pki.RESTARTED_FOR]:
      'The certificates for which Gatehouse restarted the workload, the latest first. The pod template has the same annotation.',
  }),
  ...on('objects of policies with `spec.owners.preserve`', {
    [OWNER_RECORD_ANNOTATION]:
      'Their owner references, which a restore brings back: see [owner references](../restore-windows.md#owner-references).',
  }),
  ...on('objects that a ConversionPolicy converts', {
    'conversion.gatehouse.dev/<version>':
      'Values that the requested version cannot represent: see [conversion](../conversion.md).',
  }),
  ...on(CONFIGURATIONS, {
    [DEV_URL_ANNOTATION]: 'The replica with `--dev-url` that answers for them, and until when.',
  }),
  ...on('AdmissionPolicy', {
    [READS_REVIEWED]:
      'Proof that its author was permitted to read what it reads: see [security](../security.md#authors-of-policies).',
  }),
  ...on('UniqueClaim', {
    [PROOF_ANNOTATION]: 'Proof that Gatehouse wrote this record of a deleted target.',
  }),
  ...on('RestoreWindow', {
    [OPENED_BY]: 'The name of the user who opened it, set by the webhook.',
    [OPENER_SCOPE]:
      '`Cluster` if this user may open windows for the whole cluster, set by the webhook. Absent: only in the namespaces of the window.',
  }),
  ...on(LEASE, {
    [SWEEP_DUE]: 'The window that a leader must still create, so that a crash before that loses nothing.',
    [EPOCH]: 'Increased with each write of the Lease, to detect a rollback of the cluster.',
    [ROLLBACK]: 'A rollback that replicas have detected: each lists and checks everything again.',
    [WITHOUT]: 'The [parts](../installing.md#leave-out-parts) that the leader does not run.',
    [NAMESPACES]:
      'The [namespaces](../installing.md#restrict-gatehouse-to-namespaces) to which the leader is restricted.',
    [COMPAT]:
      'The other systems whose annotations the leader honours: `--compat`. `gatehouse status` and `doctor` read it.',
    [PROPAGATION_WAIT]:
      'The setting `--ca-propagation-wait` of the leader in milliseconds, if it is not the default. `gatehouse status` reads it.',
  }),
];

const LABELS: readonly Entry[] = [
  ...on('what a [controller](../controllers.md) applies', {
    [CONTROLLER_LABEL]: 'The name of the controller.',
    [OWNER_LABEL]: 'The object that it is applied for: the start of a SHA-256 hash of its kind and name.',
  }),
  ...on('ClusterRole', {
    [AGGREGATION_LABEL]:
      '`"true"`: Gatehouse gets the permissions of this role. For kinds that policies govern or refer to; set by users.',
    [ACTIONS_LABEL]:
      '`"true"`: the leader gets the permissions of this role. For kinds that `onTargetDelete` deletes or changes; set by users.',
  }),
  ...on(TLS_SECRET, {
    [pki.SERVING_CERT_LABEL.name]: `\`${pki.SERVING_CERT_LABEL.value}\`: a watch selects only these Secrets.`,
  }),
  ...on('copy of a distributed CA bundle', {
    [pki.DISTRIBUTED]:
      '`"true"`: a watch selects only these ConfigMaps. As an annotation: `namespace/name` of the copy, which shows that Gatehouse made it.',
  }),
  ...on('ValidatingAdmissionPolicy, its binding', {
    [INSTALLED_LABEL]:
      'The controllers have [installed it](../api-server-policies.md#let-gatehouse-install-them) and remove it.',
  }),
  ...on('paused objects', {
    [QUIESCE_LABEL]: '`"true"`: the leader finds them, to restore their previous value.',
  }),
  ...on('roles in `deploy/`', {
    [PART_LABEL]: 'The only [part](../installing.md#leave-out-parts) that needs the role.',
  }),
  ...on('UniqueClaim', {
    [CLAIM_POLICY_LABEL]: 'The AdmissionPolicy whose rule it belongs to.',
    [DELETION_LABEL]:
      'Empty: it records that a target is being deleted; see [foreign keys](../foreign-keys.md#actions).',
    [DELETION_INTENT_LABEL]:
      'Empty: it is the intent of a deletion; see [foreign keys](../foreign-keys.md#what-serializable-guarantees).',
  }),
  ...on('RestoreWindow', {
    [SOURCE_LABEL]: 'The RestoreDetector that opened it.',
  }),
  ...on('RestoreReport', {
    'gatehouse.dev/restore-window': 'The RestoreWindow of the report.',
  }),
  ...on('UniqueClaim, RestoreWindow, RestoreReport', {
    [EXCLUDE_FROM_BACKUP_LABEL]: '`"true"`: Velero excludes it from backups.',
  }),
];

const FINALIZERS: readonly Entry[] = [
  ...on('RestoreWindow', {
    [SWEEP_FINALIZER]:
      'Until the final sweep. A window that you delete while no replica runs is not removed: see [remove Gatehouse](../installing.md#remove-gatehouse).',
  }),
];

/** All annotations. */
export const ANNOTATION_KEYS: readonly string[] = [...ASKED, ...WRITTEN].map(([key]) => key);

export const METADATA_KEYS: readonly string[] = [...ASKED, ...WRITTEN, ...LABELS, ...FINALIZERS].map(
  ([key]) => key,
);

export function annotationsPage(): File {
  const entries = (all: readonly Entry[]) =>
    table(
      ['key', 'on', 'description'],
      all.map(([key, on, meaning]) => [code(key), cell(on), cell(meaning)]),
    );
  return {
    file: 'annotations.md',
    title: 'Annotations, labels and finalizers',
    text: [
      'With `--compat`, Gatehouse also supports annotations of other systems: see [serving certificates](../certificates.md) and ' +
        '[CA bundles](../certificates.md#options-of-a-bundle).',
      '## Annotations that you set',
      entries(ASKED),
      '## Annotations that Gatehouse sets',
      'Do not change them.',
      entries(WRITTEN),
      '## Labels',
      entries(LABELS),
      '## Finalizers',
      entries(FINALIZERS),
      'Objects of [controllers](../controllers.md) with `finalize` have the finalizer `gatehouse.dev/controller-<name>`. All other objects can ' +
        'be deleted while no replica runs.',
    ].join('\n\n'),
  };
}
