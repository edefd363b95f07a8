/** The labels and annotations that Gatehouse reads and writes, as a documentation page. */
import { OPENED_BY } from '../../src/restore/window-admission.ts';
import { SOURCE_LABEL } from '../../src/restore/detected-window.ts';
import { SWEEP_DUE, EPOCH, ROLLBACK } from '../../src/restore/rollback.ts';
import { EXCLUDE_FROM_BACKUP_LABEL } from '../../src/api/group.ts';
import { OWNER_RECORD_ANNOTATION } from '../../src/api/owner-record.ts';
import { DEV_URL_ANNOTATION } from '../../src/admission/webhooks/dev-session.ts';
import { CLAIM_POLICY_LABEL } from '../../src/admission/policy/unique/claim-state.ts';
import { AGGREGATION_LABEL } from '../../src/runtime/policies/read-access.ts';
import * as pki from '../../src/pki/annotations.ts';
import { cell, table, type File } from './page.ts';

/** The key, the kinds that have it, and its meaning. */
type Entry = readonly [key: string, on: string, meaning: string];

const SERVICE = 'Service';
const TLS_SECRET = 'Secret with a serving cert';
const TARGET = 'webhook configuration, CustomResourceDefinition, APIService, ConfigMap';
const AUTHORITY = `Secret ${pki.AUTHORITY_SECRET}`;
const LEASE = 'Lease of the leader';
const CONFIGURATIONS = 'webhook configurations `gatehouse`';

/** Annotations that users set. */
const ASKED: readonly Entry[] = [
  [pki.SERVING_CERT_SECRET_NAME, SERVICE, 'Asks for a serving cert in the Secret of this name.'],
  [
    pki.SERVING_CERT_KEY_ALGORITHM,
    SERVICE,
    'The key algorithm: see [serving certificates](../serving-certs.md).',
  ],
  [pki.SERVING_CERT_DURATION, SERVICE, 'How long a serving cert lives, e.g. `90d` or `36h`.'],
  [
    pki.SERVING_CERT_DNS_NAMES,
    SERVICE,
    'More DNS names, with commas between them, in the domains that `--serving-cert-dns-suffixes` allows.',
  ],
  [
    pki.SERVING_CERT_POD_NAMES,
    SERVICE,
    'Of a headless Service: its pods, `db:3` for db-0 to db-2, or `db-0,db-7`, in the place of the wildcard.',
  ],
  [
    pki.SERVING_CERT_WILDCARD,
    SERVICE,
    '`true` or `false`: a wildcard for the pods. Absent: for headless Services that name no pods.',
  ],
  [
    pki.SERVING_CERT_SHORT_NAMES,
    SERVICE,
    '`false`: no names without the namespace or `svc`, which mean another Service elsewhere.',
  ],
  [
    pki.SERVING_CERT_OUTPUTS,
    `${SERVICE}; ${TLS_SECRET}`,
    'What else is written beside the PEM files, with commas between. On the Secret: which of its files are Gatehouse’s.',
  ],
  [
    pki.SERVING_CERT_KEYSTORE_PASSWORD,
    SERVICE,
    'The Secret with the password of the key stores, `name` or `name/key`; the key is `password` if absent.',
  ],
  [
    pki.SERVING_CERT_REPLACE_SECRET,
    SERVICE,
    '`true`: a Secret of its own that cannot be written (wrong type, immutable) may be deleted and made again.',
  ],
  [
    pki.SERVING_CERT_ADOPT,
    'Secret',
    'The name of the Service that may take over this Secret, which somebody else made.',
  ],
  [
    pki.INJECT_CABUNDLE,
    TARGET,
    'Keep the CA bundle in it: `true`, or the names of webhooks with commas between them.',
  ],
  [
    pki.INJECT_CABUNDLE_FROM,
    TARGET,
    'The CA bundle of a Secret (`namespace/name`) or a ConfigMap (`configmap/namespace/name`) instead of Gatehouse’s.',
  ],
  [pki.INJECT_CABUNDLE_KEY, 'ConfigMap', 'The key that holds the CA bundle, if not `ca.crt`.'],
  [
    pki.ALLOW_DIRECT_INJECTION,
    'Secret, ConfigMap',
    '`true`: its owner lets everybody have the certificates in it as a CA bundle.',
  ],
  [pki.ROTATE, AUTHORITY, 'Asks for a rotation, once for each value. The value says why.'],
  [
    pki.DISTRUST,
    AUTHORITY,
    'Generations that are not to be trusted any more from now on, with commas between them.',
  ],
  [
    pki.NEW_AUTHORITY,
    AUTHORITY,
    'Allows a new authority where the old one is lost. The value says why. Removed when it is done.',
  ],
];

/** Annotations that Gatehouse sets. */
const WRITTEN: readonly Entry[] = [
  [
    pki.SERVING_CERT_SERVICE,
    TLS_SECRET,
    'The Service, in the namespace of the Secret. This makes the Secret Gatehouse’s.',
  ],
  [pki.SERVING_CERT_SERVICE_UID, TLS_SECRET, 'The uid of that Service when the Secret was last written.'],
  [
    OWNER_RECORD_ANNOTATION,
    'objects of policies with `spec.owners.preserve`',
    'Their owner references, to link them again after a restore: see [owner references](../owner-references.md).',
  ],
  [
    'conversion.gatehouse.dev/<version>',
    'objects that a ConversionPolicy converts',
    'Values that the version asked for cannot hold: see [conversion](../conversion.md).',
  ],
  [DEV_URL_ANNOTATION, CONFIGURATIONS, 'That a replica with `--dev-url` answers for them, and until when.'],
  [OPENED_BY, 'RestoreWindow', 'Who opened it: the user name, by the webhook that saw the request.'],
  [
    SWEEP_DUE,
    LEASE,
    'The window that a leader has still to make, so that a crash before that loses nothing.',
  ],
  [EPOCH, LEASE, 'Raised with each write of the Lease, to tell when the cluster went back in time.'],
  [ROLLBACK, LEASE, 'A rollback that replicas have seen: each looks at everything anew.'],
];

const LABELS: readonly Entry[] = [
  [
    AGGREGATION_LABEL,
    'ClusterRole',
    '`"true"`: Gatehouse may do what this role allows. For kinds that policies govern or refer to; set by people.',
  ],
  [
    pki.SERVING_CERT_LABEL.name,
    TLS_SECRET,
    `\`${pki.SERVING_CERT_LABEL.value}\`: so that a watch selects these Secrets and no others.`,
  ],
  [CLAIM_POLICY_LABEL, 'UniqueClaim', 'The AdmissionPolicy whose rule it belongs to.'],
  [SOURCE_LABEL, 'RestoreWindow', 'The RestoreDetector that opened it.'],
  ['gatehouse.dev/restore-window', 'RestoreReport', 'The RestoreWindow that it reports of.'],
  [
    EXCLUDE_FROM_BACKUP_LABEL,
    'UniqueClaim, RestoreWindow, RestoreReport',
    '`"true"`: Velero leaves it out of backups.',
  ],
];

/** All keys with the prefix `gatehouse.dev/`. */
export const METADATA_KEYS: readonly string[] = [...ASKED, ...WRITTEN, ...LABELS].map(([key]) => key);

export function annotationsPage(): File {
  const entries = (all: readonly Entry[]) =>
    table(
      ['key', 'on', 'what'],
      all.map(([key, on, meaning]) => [`\`${key}\``, cell(on), cell(meaning)]),
    );
  return {
    file: 'annotations.md',
    title: 'Annotations, labels and finalizers',
    text: [
      'With `--compat`, Gatehouse also honours annotations of other systems: see [serving certificates](../serving-certs.md) and ' +
        '[CA bundles](../ca-bundles.md).',
      '## Annotations that you set',
      entries(ASKED),
      '## Annotations that Gatehouse sets',
      'They are not for people to change.',
      entries(WRITTEN),
      '## Labels',
      entries(LABELS),
      '## Finalizers',
      'Gatehouse sets none: every object can be deleted while no replica runs.',
    ].join('\n\n'),
  };
}
