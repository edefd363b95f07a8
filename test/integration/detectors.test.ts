/** The RestoreDetectors in deploy/: a user who applies one only has to set the namespace. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';

import { parseJson } from '../../src/json/json.ts';
import { restoreDetectorSchema, type RestoreDetector } from '../../src/api/restore-detector.ts';
import { readManifests } from '../../src/cli/deploy-manifests.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { detectorProblems, isEnabled, readSource } from '../../src/restore/detector.ts';
import { prune } from '../../src/machinery/schema/prune.ts';
import type { Schema } from '../../src/machinery/schema/schema.ts';
import { validateSchema } from '../../src/machinery/schema/validate.ts';

interface Role extends KubeObject {
  readonly rules: readonly {
    readonly apiGroups: readonly string[];
    readonly resources: readonly string[];
    readonly verbs: readonly string[];
  }[];
}

const FOLDER = join(import.meta.dirname, '..', '..', 'deploy', 'detectors');
const tools = readdirSync(FOLDER);
const manifestsOf = (tool: string) => readManifests(join(FOLDER, tool));
const isDetector = (object: KubeObject): object is RestoreDetector => object.kind === 'RestoreDetector';
const isRole = (object: KubeObject): object is Role => object.kind === 'ClusterRole';
const detectors = tools.flatMap((tool) => manifestsOf(tool).filter(isDetector));
const named = (wanted: string) => {
  const found = detectors.find(({ metadata }) => metadata.name === wanted);
  if (found === undefined) throw new Error(`deploy/detectors has no ${wanted}`);
  return found;
};
const trusting = (detector: RestoreDetector): RestoreDetector => ({
  ...detector,
  spec: { ...detector.spec, namespaces: ['backup-tool'] },
});

/** The schema as the API server receives it: JSON drops TypeBox's own symbols. */
const schema = JSON.parse(JSON.stringify(restoreDetectorSchema)) as Schema;

const byName = detectors.map((detector) => [detector.metadata.name, detector] as const);

test.each(byName)(
  '%s conforms to the schema, and works as soon as it trusts a namespace',
  (_name, detector) => {
    const value = parseJson(JSON.stringify({ spec: detector.spec }));
    expect(validateSchema(value, schema)).toEqual([]);
    expect(prune(value, schema).unknown).toEqual([]);
    expect(detectorProblems(detector)).toEqual([]);
    expect([detector, trusting(detector)].map(isEnabled)).toEqual([false, true]);
  },
);

test.each(tools)('%s: its ClusterRole only lets Gatehouse read what the detectors watch', (tool) => {
  const roles = manifestsOf(tool).filter(isRole);
  expect(roles.map(({ metadata }) => metadata?.labels)).toEqual([
    { 'gatehouse.dev/aggregate-to-references': 'true' },
  ]);
  const rules = roles.flatMap((role) => role.rules);
  expect(rules.every(({ verbs }) => verbs.join() === 'list,watch')).toBe(true);
  const readable = rules.flatMap(({ apiGroups, resources }) =>
    apiGroups.flatMap((group) => resources.map((resource) => `${resource}.${group}`)),
  );
  const watched = manifestsOf(tool)
    .filter(isDetector)
    .map(({ spec: { watch } }) => `${watch.resource}.${watch.apiGroup}`);
  expect(readable.toSorted()).toEqual(watched.toSorted());
});

test.each(tools)('%s: its kustomization lists all of its files', (tool) => {
  const kustomization = parse(readFileSync(join(FOLDER, tool, 'kustomization.yaml'), 'utf8')) as {
    readonly resources: readonly string[];
  };
  const files = readdirSync(join(FOLDER, tool)).filter((file) => file !== 'kustomization.yaml');
  expect(kustomization.resources.toSorted()).toEqual(files.toSorted());
});

test.each<[string, object, string]>([
  ['velero', { status: { phase: 'InProgress' } }, 'active'],
  ['velero', { status: { phase: 'FinalizingPartiallyFailed' } }, 'settling'],
  ['velero', { status: { phase: 'FailedValidation' } }, 'over'],
  ['k10', { status: { state: 'Running' } }, 'active'],
  ['stash', { status: { phase: 'Running' } }, 'active'],
  ['rancher-backup', { status: { conditions: [] } }, 'active'],
  ['rancher-backup', { status: { restoreCompletionTs: '2026-11-21T12:00:00Z' } }, 'over'],
  ['job', { status: { active: 1 } }, 'active'],
  ['job', { status: { conditions: [{ type: 'FailureTarget' }, { type: 'Failed' }] } }, 'over'],
])('%s maps %j to %s', (name, object, activity) => {
  expect(readSource(named(name), object).activity).toBe(activity);
});

test('the rules in docs/restore-windows.md pause objects of five tools', () => {
  const page = readFileSync(join(FOLDER, '..', '..', 'docs', 'restore-windows.md'), 'utf8');
  const [, text = ''] = /```yaml fragment\n(spec:\n {2}quiesce:[^]*?)```/.exec(page) ?? [];
  const { quiesce = [] } = (parse(text) as Pick<RestoreDetector, 'spec'>).spec;
  const paths = quiesce.map(({ path = '' }) => path.replace(/^.*[./]/, ''));
  expect(paths).toEqual([
    ...['', 'paused', 'reconciliationLoop"]', 'managementPolicies', 'skip-reconcile"]', 'suspend'],
  ]);
  const value = parseJson(JSON.stringify({ spec: { ...named('velero').spec, quiesce } }));
  expect(validateSchema(value, schema)).toEqual([]);
  expect(detectorProblems({ ...named('velero'), spec: { ...named('velero').spec, quiesce } })).toEqual([]);
});
