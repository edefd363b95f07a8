import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';

import { nativeManifests } from './policy-manifests.ts';

const policy = (expression: string, matchCondition = 'true') => ({
  apiVersion: 'gatehouse.dev/v1alpha1',
  kind: 'AdmissionPolicy',
  metadata: { name: 'codes' },
  spec: {
    match: {
      apiGroups: [''],
      resources: ['configmaps'],
      matchConditions: [{ name: 'some', expression: matchCondition }],
    },
    validate: { rules: [{ name: 'code', expression, message: 'no' }] },
  },
});

function commentsOf(object: object, minor?: number): readonly string[] {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-vap-'));
  onTestFinished(() => {
    rmSync(folder, { recursive: true });
  });
  const path = join(folder, 'policy.yaml');
  writeFileSync(path, JSON.stringify(object)); // JSON is YAML
  const text = nativeManifests([path], { ownNamespace: 'gatehouse-system', map: false, minor });
  return text.split('\n').filter((line) => line.startsWith('#'));
}

const ENFORCED = '# AdmissionPolicy codes: the API server enforces 1 of 1 checks';
const LEFT = '# AdmissionPolicy codes: the API server enforces 0 of 1 checks';
const NEW = "object.data.code.lastIndexOf('a') == 0";

test('a comment names the oldest Kubernetes that answers all checks as the webhook does', () => {
  expect(commentsOf(policy("object.data.code == 'a'"))).toEqual([ENFORCED]);
  expect(commentsOf(policy("semver('1.2.3').major() == 1"))).toEqual([
    ENFORCED,
    expect.stringMatching(/^# Kubernetes 1\.34 or newer: /),
  ]);
  expect(commentsOf(policy('true', NEW))).toEqual([
    ENFORCED,
    expect.stringMatching(/^# Kubernetes 1\.37 or newer: /),
  ]);
});

test('a policy that needs a newer Kubernetes says nothing about the others', () => {
  const others = { ...policy("object.data.code == 'a'"), metadata: { name: 'others' } };
  const items = [policy('true', NEW), others];
  expect(commentsOf({ apiVersion: 'v1', kind: 'List', items })).toEqual([
    ENFORCED,
    expect.stringMatching(/^# Kubernetes 1\.37 or newer: /),
    ENFORCED.replace('codes', 'others'),
  ]);
});

test('for an older Kubernetes, the webhook keeps what that answers otherwise', () => {
  expect(commentsOf(policy(NEW), 36)).toEqual([
    LEFT,
    expect.stringMatching(/^# rule code: webhook, because .*lastIndexOf.* from Kubernetes 1\.37$/),
  ]);
  expect(commentsOf(policy(NEW), 37)).toEqual([ENFORCED]);
});
