/** Objects into which another system injects CA bundles. */
import type { X509Certificate } from 'node:crypto';

import { sourceName } from '../../../pki/injection/request.ts';
import { planInjection, textIn, wantedSlots } from '../../../pki/injection/plan.ts';
import { bundleOfSource, type BundleState } from '../../../pki/injection/source.ts';
import {
  toTarget,
  type FieldSet,
  type InjectionTarget,
  type RawTarget,
  type TargetKind,
} from '../../../pki/injection/target.ts';
import { INJECTION_MANAGER } from '../../../pki/annotations.ts';
import { nameOf } from '../../../pki/x509/path-problem.ts';
import { readableCertificates } from '../../../pki/x509/pem.ts';
import { someOf } from '../doctor/finding.ts';
import { valueOf } from '../read-cluster/reading.ts';
import { placeOf, secretsBelow, type MigrationContext, type MigrationRow } from './migration-row.ts';
import { annotationsOf, COMPAT } from './read-migration.ts';

export const targetRows = (context: MigrationContext): readonly MigrationRow[] =>
  context.readings.targets.flatMap(({ kind, objects }) =>
    (valueOf(objects) ?? []).map((raw) => rowOf(kind, raw, context)),
  );

function rowOf(kind: TargetKind, raw: RawTarget, context: MigrationContext): MigrationRow {
  const target = toTarget(kind, raw, [COMPAT[context.system]]);
  const bundle = bundleFor(target, context);
  const owner = ownerOf(kind, raw, target, context);
  const row = { ...placeOf(kind.kind, raw.metadata), owner };
  if (target.request.kind === 'none') {
    const names = annotationsOf(raw.metadata, context.system);
    return {
      ...row,
      state: 'Blocked',
      changes: names.map((name) => `${name} is not honoured. ${hint(name)}`),
    };
  }
  // Field ownership does not matter here.
  const plan = planInjection(kind, { ...target, own: [] }, bundle);
  if (plan.kind === 'invalid') return { ...row, state: 'Blocked', changes: [plan.problem] };
  if (plan.kind === 'none')
    return { ...row, state: 'Done', changes: ['no webhook or endpoint of it uses a Service'] };
  if (plan.kind === 'current')
    return owner === 'Gatehouse'
      ? { ...row, state: 'Done', changes: [] }
      : { ...row, state: 'Ready', changes: ['the bundle stays; Gatehouse keeps it up to date'] };
  const origin = target.request.kind === 'wanted' ? target.request.source.kind : undefined;
  const wanted =
    bundle.kind === 'bundle'
      ? readableCertificates(bundle.pem)
      : origin === 'authority'
        ? context.ownRoots
        : undefined;
  if (origin === 'api-server')
    return {
      ...row,
      state: 'Ready',
      changes: ['the bundle gets the CA that Gatehouse trusts for the API server'],
    };
  if (wanted === undefined)
    return { ...row, state: 'Unknown', changes: ['the bundle that Gatehouse would inject is unknown'] };
  return { ...row, state: 'Ready', changes: bundleChanges(kind, target, wanted, context) };
}

function bundleFor(
  { request }: InjectionTarget,
  { authority, readings, now }: MigrationContext,
): BundleState {
  if (request.kind !== 'wanted') return { kind: 'unknown' };
  if (request.source.kind === 'authority') return authority.bundle;
  if (request.source.kind === 'api-server') return { kind: 'unknown' }; // only the leader knows it
  const { ref, consent } = request.source;
  const reading = readings.sources.get(sourceName(ref));
  return reading?.kind === 'read' ? bundleOfSource(ref, consent, reading.value, now) : { kind: 'unknown' };
}

/** A client of an object loads its bundle, so it trusts afterwards what the new bundle contains, and nothing else. */
function bundleChanges(
  kind: TargetKind,
  target: InjectionTarget,
  wanted: readonly X509Certificate[],
  context: MigrationContext,
): readonly string[] {
  const present = wantedSlots(target).flatMap((slot) => readableCertificates(textIn(kind, slot)) ?? []);
  const notIn = (all: readonly X509Certificate[]) => (one: X509Certificate) =>
    !all.some(({ fingerprint256 }) => fingerprint256 === one.fingerprint256);
  const unique = new Map(present.map((one) => [one.fingerprint256, one]));
  const dropped = [...unique.values()].filter(notIn(wanted));
  const added =
    wanted.length === 0 ? ['the CA that Gatehouse creates'] : wanted.filter(notIn(present)).map(nameOf);
  return [
    ...(added.length === 0 ? [] : [`the bundle gets ${someOf(added)}`]),
    ...dropped.map((root) => {
      const below = secretsBelow(root, context);
      const effect =
        below.length === 0 ? '' : `: its clients reject the present certificates in ${someOf(below)}`;
      return `the bundle loses ${nameOf(root)}${effect}`;
    }),
  ];
}

/** The writer of the bundle, from managedFields. In a CustomResourceDefinition, Gatehouse leaves no trace. */
function ownerOf(
  kind: TargetKind,
  { metadata }: RawTarget,
  target: InjectionTarget,
  { authority }: MigrationContext,
): string {
  const texts = wantedSlots(target).map((slot) => textIn(kind, slot));
  const names = wantedSlots(target).map(({ name }) => name);
  const writers = (metadata?.managedFields ?? [])
    .filter(({ fieldsV1 = {} }) =>
      kind.kind === 'ConfigMap'
        ? kind.ownedSlots(fieldsV1).some((name) => names.includes(name))
        : holdsBundle(fieldsV1),
    )
    .map(({ manager = '' }) => systemOf(manager));
  if (writers.length > 0) return [...new Set(writers)].join(', ');
  if (texts.every((text) => text === '')) return 'none';
  return authority.bundle.kind === 'bundle' && texts.includes(authority.bundle.pem) ? 'Gatehouse' : 'unknown';
}

const holdsBundle = (fields: FieldSet): boolean =>
  Object.entries(fields).some(([key, below]) => key === 'f:caBundle' || holdsBundle(below));

/** Field managers are the names of programs, as their user agents state them. */
export function systemOf(manager: string): string {
  if (manager.includes('service-ca')) return 'service-ca';
  if (manager.includes('cainjector') || manager.includes('cert-manager')) return 'cert-manager';
  return manager === INJECTION_MANAGER || manager === 'gatehouse' ? 'Gatehouse' : manager;
}

function hint(annotation: string): string {
  if (annotation.endsWith('legacy-cabundle'))
    return 'Use inject-cabundle, and the ConfigMap kube-root-ca.crt for the CA of the API server';
  return 'Remove it, or keep the other system for this object';
}
