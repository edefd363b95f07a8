/** Names that Gatehouse reads and writes on objects for its certificates. */

/** On a Service: asks for a serving cert in the Secret of this name. */
export const SERVING_CERT_SECRET_NAME = 'gatehouse.dev/serving-cert-secret-name';
/** On such a Service: one of the key algorithms. */
export const SERVING_CERT_KEY_ALGORITHM = 'gatehouse.dev/serving-cert-key-algorithm';
/** On such a Service: how long a serving cert lives, e.g. `90d` or `36h`. */
export const SERVING_CERT_DURATION = 'gatehouse.dev/serving-cert-duration';

/** On a Secret with a serving cert: the name of the Service, in the namespace of the Secret. This makes the Secret ours. */
export const SERVING_CERT_SERVICE = 'gatehouse.dev/serving-cert-service';
/** On such a Secret: the uid of that Service when the Secret was last written. It changes when a Service is made again or restored. */
export const SERVING_CERT_SERVICE_UID = 'gatehouse.dev/serving-cert-service-uid';
/** Label on such a Secret, so that a watch selects our Secrets and no others. */
export const SERVING_CERT_LABEL = { name: 'gatehouse.dev/serving-cert', value: 'true' } as const;

/** On a webhook configuration, value `true`: write the CA bundle into it. */
export const INJECT_CABUNDLE = 'gatehouse.dev/inject-cabundle';

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
