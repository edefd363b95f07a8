/** Names that Gatehouse reads and writes on objects for its certificates. */

/** On a Service: asks for a serving cert in the Secret of this name. */
export const SERVING_CERT_SECRET_NAME = 'gatehouse.dev/serving-cert-secret-name';
/** On such a Service: one of the key algorithms. */
export const SERVING_CERT_KEY_ALGORITHM = 'gatehouse.dev/serving-cert-key-algorithm';
/** On such a Service: how long a serving cert lives, e.g. `90d` or `36h`. */
export const SERVING_CERT_DURATION = 'gatehouse.dev/serving-cert-duration';
/** On such a Service: more DNS names, separated by commas, inside the suffixes that the operator allows. */
export const SERVING_CERT_DNS_NAMES = 'gatehouse.dev/serving-cert-dns-names';
/** On such a headless Service: its pods, e.g. `db:3` for db-0 to db-2, or `db-0,db-7`. They stand in for the wildcard. */
export const SERVING_CERT_POD_NAMES = 'gatehouse.dev/serving-cert-pod-names';
/** On such a Service, `true` or `false`: a wildcard for the pods. Without it: for headless Services that name no pods. */
export const SERVING_CERT_WILDCARD = 'gatehouse.dev/serving-cert-wildcard';
/** On such a Service, `false`: no names without the namespace or `svc`, which mean another Service elsewhere. */
export const SERVING_CERT_SHORT_NAMES = 'gatehouse.dev/serving-cert-short-names';
/**
 * On such a Service: what else is written beside the PEM files, separated by commas. On a Secret: what of it Gatehouse wrote,
 * so that it can tell its own files from those of others.
 */
export const SERVING_CERT_OUTPUTS = 'gatehouse.dev/serving-cert-outputs';
/** On such a Service: the Secret with the password of its key stores, as `name` or `name/key`; the key is `password` if absent. */
export const SERVING_CERT_KEYSTORE_PASSWORD = 'gatehouse.dev/serving-cert-keystore-password';
/** On such a Service, `true`: a Secret of its own that cannot be written (wrong type, immutable) may be deleted and made again. */
export const SERVING_CERT_REPLACE_SECRET = 'gatehouse.dev/serving-cert-replace-secret';
/** On a Secret that somebody else made: the name of the Service that may take it over. */
export const SERVING_CERT_ADOPT = 'gatehouse.dev/serving-cert-adopt';

/** On a Secret with a serving cert: the name of the Service, in the namespace of the Secret. This makes the Secret ours. */
export const SERVING_CERT_SERVICE = 'gatehouse.dev/serving-cert-service';
/** On such a Secret: the uid of that Service when the Secret was last written. It changes when a Service is made again or restored. */
export const SERVING_CERT_SERVICE_UID = 'gatehouse.dev/serving-cert-service-uid';
/** Label on such a Secret, so that a watch selects our Secrets and no others. */
export const SERVING_CERT_LABEL = { name: 'gatehouse.dev/serving-cert', value: 'true' } as const;

/**
 * On a webhook configuration, CustomResourceDefinition, APIService or ConfigMap: keep the CA bundle in it. `true`, or the names of
 * webhooks with commas between them; `false` is the same as nothing.
 */
export const INJECT_CABUNDLE = 'gatehouse.dev/inject-cabundle';
/** On such an object: the CA bundle of a Secret (`namespace/name`) or a ConfigMap (`configmap/namespace/name`) instead of ours. */
export const INJECT_CABUNDLE_FROM = 'gatehouse.dev/inject-cabundle-from';
/** On such a ConfigMap: the key that holds the CA bundle, if not `ca.crt`. */
export const INJECT_CABUNDLE_KEY = 'gatehouse.dev/inject-cabundle-key';
/** On the Secret or ConfigMap, value `true`: its owner lets everybody have the certificates in it. */
export const ALLOW_DIRECT_INJECTION = 'gatehouse.dev/allow-direct-injection';
/** The field manager that owns caBundle fields, and only those. */
export const INJECTION_MANAGER = 'gatehouse-cabundle';

/** On the Secret of the authority: asks for a rotation, once for each value. The value says why. */
export const ROTATE = 'gatehouse.dev/rotate';
/** On the Secret of the authority: generations that are not to be trusted any more from now on, separated by commas. */
export const DISTRUST = 'gatehouse.dev/distrust';
/** On the Secret of the authority: allows a new authority where the old one is lost. The value says why. Removed when it is done. */
export const NEW_AUTHORITY = 'gatehouse.dev/new-authority';

/** Secret with every generation of the authority. */
export const AUTHORITY_SECRET = 'gatehouse-authority';
/** ConfigMap with the CA bundle. */
export const CABUNDLE_CONFIGMAP = 'gatehouse-cabundle';
/** Secret with the serving cert of Gatehouse itself. */
export const SERVING_SECRET = 'gatehouse-serving';

export const TLS_SECRET_TYPE = 'kubernetes.io/tls';
/** Keys of `data`: the first two are what the type `kubernetes.io/tls` asks for. */
export const TLS_CERT_KEY = 'tls.crt';
export const TLS_PRIVATE_KEY_KEY = 'tls.key';
/** Key of the CA bundle, in serving Secrets and in the ConfigMap. */
export const CA_BUNDLE_KEY = 'ca.crt';
