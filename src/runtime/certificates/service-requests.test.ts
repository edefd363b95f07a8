import { expect, test } from 'vitest';

import { resolveConfig } from '../../config/config.ts';
import { createGeneration } from '../../pki/authority/generation.ts';
import { signTrial } from '../../pki/authority/trial.ts';
import { generateKeyPair, randomSerial } from '../../pki/x509/keys.ts';
import { domainsOfNewCa, trialScope } from './service-requests.ts';

type Settings = Parameters<typeof trialScope>[0];

const defaults = resolveConfig({}, {});
const plain: Settings = { ...defaults, ca: { ...defaults.ca, nameConstraints: true } };

test.each<[string, Partial<Settings['servingCerts']>, string | undefined]>([
  ['the default settings', {}, undefined],
  ['short names, which certs of such a CA never have', { shortNames: true }, undefined],
  ['a domain of its own', { dnsSuffixes: ['apps.example.com'] }, undefined],
  ['a domain for one namespace', { namespaceSuffixes: new Map([['shop.example.com', 'shop']]) }, undefined],
  ['another cluster domain', {}, 'k8s.example.com'],
])('a new CA with name constraints passes its trial with %s', async (_what, change, clusterDomain) => {
  const config = { ...plain, clusterDomain, servingCerts: { ...plain.servingCerts, ...change } };
  const keyPair = await generateKeyPair('ECDSA-P256');
  const now = new Date();
  const pending = await createGeneration({
    keyPair,
    serial: randomSerial(),
    now,
    domains: domainsOfNewCa(config),
  });
  expect(await signTrial(pending, trialScope(config, []), now)).toContain('BEGIN CERTIFICATE');
  const other = { ...config, servingCerts: { ...config.servingCerts, dnsSuffixes: ['example.org'] } };
  await expect(signTrial(pending, trialScope(other, []), now)).rejects.toThrow('exclude name.example.org');
});
