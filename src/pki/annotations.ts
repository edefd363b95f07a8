/** Annotations, labels and names that Gatehouse uses for its certificates. */
import type { ObjectMeta } from '../json/kube-object.ts';

/** Prefixes of the annotations of a Service that ask for a certificate for servers, and for clients. */
export const CERT_PREFIXES = {
  serving: 'gatehouse.dev/serving-cert-',
  client: 'gatehouse.dev/client-cert-',
} as const;
/** On a Service: asks for a client cert in the Secret of this name. */
export const CLIENT_CERT_SECRET_NAME = `${CERT_PREFIXES.client}secret-name`;

/** On a Service: asks for a serving cert in the Secret of this name. */
export const SERVING_CERT_SECRET_NAME = 'gatehouse.dev/serving-cert-secret-name';
export const SERVING_CERT_KEY_ALGORITHM = 'gatehouse.dev/serving-cert-key-algorithm';
/** On such a Service: names or numbers of the ports with the serving cert, or `none`. Default: every TCP port with TLS. */
export const SERVING_CERT_PORTS = 'gatehouse.dev/serving-cert-ports';
export const SERVING_CERT_DURATION = 'gatehouse.dev/serving-cert-duration';
export const SERVING_CERT_RENEW_AFTER = 'gatehouse.dev/serving-cert-renew-after';
/** On such a Service: more DNS names, separated by commas, inside the suffixes that the operator allows. */
export const SERVING_CERT_DNS_NAMES = 'gatehouse.dev/serving-cert-dns-names';
export const SERVING_CERT_CLUSTER_IPS = 'gatehouse.dev/serving-cert-cluster-ips';
/** On such a headless Service: its pods, e.g. `db:3` for db-0 to db-2, or `db-0,db-7`. They replace the wildcard. */
export const SERVING_CERT_POD_NAMES = 'gatehouse.dev/serving-cert-pod-names';
/** On such a Service, `true` or `false`: a wildcard for the pods. Default: only if it is headless and does not list pods. */
export const SERVING_CERT_WILDCARD = 'gatehouse.dev/serving-cert-wildcard';
/** On such a Service, `false`: no names without the namespace or `svc`, which mean another Service elsewhere. */
export const SERVING_CERT_SHORT_NAMES = 'gatehouse.dev/serving-cert-short-names';
/** On such a Service: files besides PEM, separated by commas. On a Secret: those that Gatehouse wrote. */
export const SERVING_CERT_OUTPUTS = 'gatehouse.dev/serving-cert-outputs';
export const SERVING_CERT_KEYSTORE_PASSWORD = 'gatehouse.dev/serving-cert-keystore-password';
/** On such a Service, `true`: Gatehouse may delete and recreate its Secret if it has the wrong type or is immutable. */
export const SERVING_CERT_REPLACE_SECRET = 'gatehouse.dev/serving-cert-replace-secret';
/** On a Secret of another owner: the name of the Service that may take it over. */
export const SERVING_CERT_ADOPT = 'gatehouse.dev/serving-cert-adopt';

/** On a Deployment, StatefulSet or DaemonSet, `true`: restart it if its pods present an earlier serving cert. */
export const RESTART_ON_RENEWAL = 'gatehouse.dev/restart-on-renewal';
export const RESTARTED_FOR = 'gatehouse.dev/restarted-for';

/** On a Secret with a serving cert: the name of the Service, in the same namespace. This makes the Secret ours. */
export const SERVING_CERT_SERVICE = 'gatehouse.dev/serving-cert-service';
/** On such a Secret: the uid of that Service at the last write. A recreated or restored Service has another uid. */
export const SERVING_CERT_SERVICE_UID = 'gatehouse.dev/serving-cert-service-uid';
/** On such a Secret: its own `namespace/name`. A copy carries the place of its original. */
export const SERVING_CERT_SECRET = 'gatehouse.dev/serving-cert-secret';
/** Label on such a Secret, so that a watch selects only our Secrets. */
export const SERVING_CERT_LABEL = { name: 'gatehouse.dev/serving-cert', value: 'true' } as const;
export const SERVING_CERT_SELECTOR = `${SERVING_CERT_LABEL.name}=${SERVING_CERT_LABEL.value}`;

/** On a target: inject the CA bundle. `true`, or the names of webhooks, separated by commas. */
export const INJECT_CABUNDLE = 'gatehouse.dev/inject-cabundle';
export const INJECT_CABUNDLE_FROM = 'gatehouse.dev/inject-cabundle-from';
export const INJECT_CABUNDLE_KEY = 'gatehouse.dev/inject-cabundle-key';
/** On that Secret or ConfigMap, `true`: its owner allows injection of its certificates into any object. */
export const ALLOW_DIRECT_INJECTION = 'gatehouse.dev/allow-direct-injection';
export const INJECTION_MANAGER = 'gatehouse-cabundle';

/** On a ConfigMap of Gatehouse's namespace: the label selector of the namespaces that get its bundle. */
export const DISTRIBUTE_TO = 'gatehouse.dev/distribute-to';
/** On such a ConfigMap: what the bundle contains besides its own certificates: `authority`, `public`, both or nothing. */
export const BUNDLE_SOURCES = 'gatehouse.dev/bundle-sources';
/** On such a ConfigMap: SHA-256 fingerprints of public roots that the bundle lacks, separated by commas. */
export const BUNDLE_EXCLUDES = 'gatehouse.dev/bundle-excludes';
/** Label on a copy of such a bundle, and annotation with `namespace/name` of the copy. They mark it as ours. */
export const DISTRIBUTED = 'gatehouse.dev/distributed-bundle';

/** On the Secret of the authority: requests a rotation, once for each value. The value gives the reason. */
export const ROTATE = 'gatehouse.dev/rotate';
/** On the Secret of the authority: generations to distrust from now on, separated by commas. */
export const DISTRUST = 'gatehouse.dev/distrust';
/** On the Secret of the authority: the reason for a new authority after the old one was lost. Removed afterwards. */
export const NEW_AUTHORITY = 'gatehouse.dev/new-authority';

export const AUTHORITY_SECRET = 'gatehouse-authority';
/** On the ConfigMap with the CA bundle: the roots that sources of other bundles hold or held. */
export const SOURCE_ROOTS = 'gatehouse.dev/source-roots';
export const CABUNDLE_CONFIGMAP = 'gatehouse-cabundle';
/** ClusterTrustBundle with the CA bundle, and the signer whose roots it holds. Its name must begin with the signer. */
export const TRUST_BUNDLE = 'gatehouse.dev:ca:bundle';
export const TRUST_BUNDLE_SIGNER = 'gatehouse.dev/ca';
export const SERVING_SECRET = 'gatehouse-serving';
/** What webhook processes need besides the cert, as JSON. */
export const SHARED_STATE_KEY = 'gatehouse-state.json';

export const TLS_SECRET_TYPE = 'kubernetes.io/tls';
export const TLS_CERT_KEY = 'tls.crt';
export const TLS_PRIVATE_KEY_KEY = 'tls.key';
export const CA_BUNDLE_KEY = 'ca.crt';

const PREFIX = 'gatehouse.dev/';
const forBoth = (name: string): readonly string[] => [
  name,
  name.replace(CERT_PREFIXES.serving, CERT_PREFIXES.client),
];
const CERT_OPTIONS = [
  SERVING_CERT_KEY_ALGORITHM,
  SERVING_CERT_PORTS,
  SERVING_CERT_DURATION,
  SERVING_CERT_DNS_NAMES,
  SERVING_CERT_CLUSTER_IPS,
  SERVING_CERT_POD_NAMES,
  SERVING_CERT_WILDCARD,
  SERVING_CERT_SHORT_NAMES,
  SERVING_CERT_KEYSTORE_PASSWORD,
  SERVING_CERT_REPLACE_SECRET,
].flatMap(forBoth);
/** Gatehouse copies these to the Secret. */
const COPIED_OPTIONS = [SERVING_CERT_OUTPUTS, SERVING_CERT_RENEW_AFTER].flatMap(forBoth);
const OPENSHIFT_REQUESTS = ['alpha', 'beta'].map(
  (version) => `service.${version}.openshift.io/serving-cert-secret-name`,
);
const TARGETS = ['ValidatingWebhookConfiguration', 'MutatingWebhookConfiguration', 'APIService'];

/** The kinds whose objects carry an annotation with an effect. */
const PLACES: readonly { readonly names: readonly string[]; readonly kinds: readonly string[] }[] = [
  { names: [...forBoth(SERVING_CERT_SECRET_NAME), ...CERT_OPTIONS], kinds: ['Service'] },
  { names: COPIED_OPTIONS, kinds: ['Service', 'Secret'] },
  { names: [SERVING_CERT_ADOPT], kinds: ['Secret'] },
  {
    names: [INJECT_CABUNDLE, INJECT_CABUNDLE_FROM, INJECT_CABUNDLE_KEY],
    kinds: [...TARGETS, 'CustomResourceDefinition', 'ConfigMap'],
  },
  { names: [ALLOW_DIRECT_INJECTION], kinds: ['Secret', 'ConfigMap'] },
  { names: [DISTRIBUTE_TO, BUNDLE_SOURCES, BUNDLE_EXCLUDES], kinds: ['ConfigMap'] },
  { names: [RESTART_ON_RENEWAL], kinds: ['Deployment', 'StatefulSet', 'DaemonSet'] },
];
/** Other rooms set these on objects of any kind. */
const OF_OTHERS = ['applied', 'chart-replicas', 'dev-url', 'owner-references', 'quiesced'];
const KNOWN = new Set([
  ...PLACES.flatMap(({ names }) => names),
  ...OF_OTHERS.map((name) => PREFIX + name),
  RESTARTED_FOR,
  SERVING_CERT_SERVICE,
  SERVING_CERT_SERVICE_UID,
  SERVING_CERT_SECRET,
  SOURCE_ROOTS,
  DISTRIBUTED,
  ROTATE,
  DISTRUST,
  NEW_AUTHORITY,
]);

/** An annotation with our prefix that Gatehouse ignores on this kind: misspelt, in the wrong place, or alone. */
export function annotationProblem(kind: string, annotations: ObjectMeta['annotations']): string | undefined {
  const all = Object.keys(annotations ?? {});
  const names = all.filter((name) => name.startsWith(PREFIX));
  const unknown = names.find((name) => !KNOWN.has(name));
  if (unknown !== undefined)
    return `${unknown} is not an annotation of Gatehouse: correct its name or remove it`;
  for (const name of names) {
    const kinds = PLACES.find((place) => place.names.includes(name))?.kinds;
    if (kinds !== undefined && !kinds.includes(kind))
      return `${name} is ignored on a ${kind}: annotate a ${kinds.join(', ').replace(/, (?=[^,]*$)/, ' or ')}`;
    const needed = neededBy(name);
    if (kind !== 'Secret' && needed !== undefined && !needed.some((one) => all.includes(one)))
      return `${name} has no effect without ${needed[0]}: add it`;
  }
  return undefined;
}

/** The annotations of which one must be there, so that this one counts. */
function neededBy(name: string): readonly [string, ...string[]] | undefined {
  if (name === INJECT_CABUNDLE_KEY) return [INJECT_CABUNDLE, INJECT_CABUNDLE_FROM];
  if (name === BUNDLE_SOURCES || name === BUNDLE_EXCLUDES) return [DISTRIBUTE_TO];
  if (![...CERT_OPTIONS, ...COPIED_OPTIONS].includes(name)) return undefined;
  if (name.startsWith(CERT_PREFIXES.client)) return [CLIENT_CERT_SECRET_NAME];
  return [SERVING_CERT_SECRET_NAME, ...OPENSHIFT_REQUESTS];
}
