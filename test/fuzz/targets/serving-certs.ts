/** Inputs of tenants for serving certificates and CA bundles: Secrets and annotations. */
import fc from 'fast-check';

import { isJsonObject, type JsonObject } from '../../../src/json/json.ts';
import { bundleOfSource } from '../../../src/pki/injection/source.ts';
import { summarizeServingCert } from '../../../src/pki/serving-certs/facts.ts';
import { servingCertRequest, type ServingCertRequest } from '../../../src/pki/serving-certs/request.ts';
import { LEAF_PURPOSES } from '../../../src/pki/x509/certificate-fields.ts';
import { bundle, isDiscreet, key, KEYS, NOW, server } from '../keys.ts';
import { mutatedObject, mutatedText } from '../mutated.ts';
import { fuzzTarget, hold } from '../target.ts';

const base64 = (text: string) => Buffer.from(text).toString('base64');
const files = { 'tls.crt': server.chain, 'tls.key': key, 'ca.crt': bundle };

/** The Secret of a serving certificate and the source of a bundle: invalid content gives a result, never an error. */
export const servingSecret = fuzzTarget(
  'Secret of a serving cert',
  8,
  fc.array(
    fc.tuple(
      fc.constantFrom(...Object.keys(files)),
      mutatedText([...Object.values(files), ...KEYS]),
      fc.boolean(),
    ),
    {
      maxLength: 2,
    },
  ),
  (edits) => {
    const texts = new Map<string, string>(Object.entries(files));
    for (const [name, text, isGone] of edits) {
      if (isGone) texts.delete(name);
      else texts.set(name, text);
    }
    const data = Object.fromEntries([...texts].map(([name, text]) => [name, base64(text)]));
    const summary = summarizeServingCert(data);
    if (summary?.kind === 'unusable')
      hold(isDiscreet(new Error(summary.message)), () => 'the message reveals the key');
    if (edits.length === 0) hold(summary?.kind === 'usable', () => 'the unchanged Secret is not usable');
    const ref = { kind: 'Secret', namespace: 'a', name: 'b' } as const;
    const metadata = { annotations: { 'gatehouse.dev/allow-direct-injection': 'true' } };
    const state = bundleOfSource(
      ref,
      { annotation: 'gatehouse.dev/allow-direct-injection', value: 'true' },
      { metadata, data },
      NOW,
    );
    if (state.kind === 'unusable')
      hold(isDiscreet(new Error(state.message)), () => 'the message reveals the key');
    if (state.kind === 'bundle') hold(!state.pem.includes('PRIVATE'), () => 'a key is injected');
  },
);

const SERVICE: JsonObject = {
  name: 'db',
  namespace: 'prod',
  annotations: {
    'gatehouse.dev/serving-cert-secret-name': 'db-tls',
    'gatehouse.dev/serving-cert-dns-names': 'db.example.com,*.db.example.com,shopping.example.com',
    'gatehouse.dev/serving-cert-key-algorithm': 'RSA-2048',
    'gatehouse.dev/serving-cert-duration': '24h',
    'gatehouse.dev/serving-cert-outputs': 'combined-pem,pkcs12',
    'gatehouse.dev/serving-cert-pod-names': 'db:3',
    'gatehouse.dev/serving-cert-wildcard': 'true',
    'gatehouse.dev/serving-cert-renew-after': '50%',
    'gatehouse.dev/serving-cert-cluster-ips': 'false',
    'gatehouse.dev/serving-cert-keystore-password': 'secret/key',
    'gatehouse.dev/client-cert-secret-name': 'db-client-tls',
    'gatehouse.dev/client-cert-dns-names': 'db.example.com',
  },
};
const RULES = {
  clusterDomain: 'cluster.local',
  dnsSuffixes: ['example.com'],
  shortNames: true,
  clusterIPs: true,
  namespaceSuffixes: new Map([['shop.example.com', 'shop']]),
  nameConstraints: false,
  maxLifetimeMs: 365 * 86_400_000,
  renewAfter: 66,
  openshift: true,
};

/**
 * For any annotations of a Service, the certificate contains only DNS names of the Service and those that the operator
 * allows.
 */
export const serviceRequests = fuzzTarget(
  'annotations of a Service',
  30,
  mutatedObject([SERVICE]),
  (metadata) => {
    const { annotations } = metadata;
    const texts = Object.entries(isJsonObject(annotations) ? annotations : {}).filter(
      (entry): entry is [string, string] => typeof entry[1] === 'string', // the API server allows only strings
    );
    const service = {
      metadata: { name: 'db', namespace: 'prod', annotations: Object.fromEntries(texts) },
      spec: { clusterIP: 'None' },
    };
    for (const purpose of LEAF_PURPOSES) holdRequest(servingCertRequest(service, RULES, purpose));
  },
);

function holdRequest(request: ServingCertRequest): void {
  if (request.kind === 'invalid')
    hold(request.message.length < 2_000, () => `${request.message.length} characters`);
  if (request.kind !== 'request') return;
  for (const name of request.dnsNames) {
    const isOwn = name === 'db' || /^([a-z0-9*-]+\.)*db\.prod(\.svc(\.cluster\.local)?)?$/.test(name);
    hold(
      !/(^|\.)shop\.example\.com$/.test(name) && name !== '*.example.com',
      () => `${name} is of another namespace`,
    );
    hold(isOwn || /^(\*\.)?([a-z0-9-]+\.)*example\.com$/.test(name), () => `it has the name ${name}`);
  }
  hold(
    request.lifetimeMs > 0 && Number.isFinite(request.lifetimeMs),
    () => `its lifetime is ${request.lifetimeMs} ms`,
  );
}
