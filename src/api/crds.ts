/** The CustomResourceDefinitions of Gatehouse, made from the schemas in this folder. */
import type { TObject } from 'typebox';

import { admissionPolicySchema } from './admission-policy.ts';
import { conversionPolicySchema } from './conversion-policy.ts';
import { GROUP, VERSION } from './group.ts';
import { policyExceptionSchema } from './policy-exception.ts';
import { restoreDetectorSchema } from './restore-detector.ts';
import { restoreReportSchema } from './restore-findings.ts';
import { restoreWindowSchema } from './restore-window.ts';
import { uniqueClaimSchema } from './unique-claim.ts';

const column = (name: string, jsonPath: string, type: 'string' | 'integer' | 'date' = 'string') => ({
  name,
  type,
  jsonPath,
});
/** Shown only by `kubectl get -o wide`. */
const wideColumn = (...args: Parameters<typeof column>) => ({ ...column(...args), priority: 1 });

const AGE = column('Age', '.metadata.creationTimestamp', 'date');

const condition = (type: string, field: 'status' | 'reason') =>
  `.status.conditions[?(@.type=="${type}")].${field}`;

const READY = [
  column('Ready', condition('Ready', 'status')),
  column('Reason', condition('Ready', 'reason')),
] as const;

export function customResourceDefinitions(): readonly { readonly name: string; readonly manifest: object }[] {
  return [
    definition('AdmissionPolicy', 'admissionpolicies', 'ghap', admissionPolicySchema, [
      ...READY,
      column('Installed', condition('WebhooksInstalled', 'status')),
      wideColumn('Compiled', '.status.compiled'),
      AGE,
    ]),
    definition('ConversionPolicy', 'conversionpolicies', 'ghcp', conversionPolicySchema, [
      column('Resource', '.spec.target.resource'),
      column('Group', '.spec.target.apiGroup'),
      column('Hub', '.spec.hub'),
      ...READY,
      column('Installed', condition('Installed', 'status')),
      AGE,
    ]),
    definition(
      'PolicyException',
      'policyexceptions',
      'pex',
      policyExceptionSchema,
      [
        column('Policy', '.spec.policy'),
        ...READY,
        column('Expires', '.spec.expiresAt'),
        wideColumn('Because', '.spec.reason'),
        AGE,
      ],
      'Namespaced',
    ),
    definition('RestoreDetector', 'restoredetectors', 'ghrd', restoreDetectorSchema, [
      column('Resource', '.spec.watch.resource'),
      column('Group', '.spec.watch.apiGroup'),
      column('Namespaces', '.spec.namespaces'),
      ...READY,
      column('Active', '.status.active', 'integer'),
      AGE,
    ]),
    definition('RestoreReport', 'restorereports', 'ghrr', restoreReportSchema, [
      column('Window', '.spec.window'),
      column('Part', '.spec.part', 'integer'),
      column('Parts', '.spec.parts', 'integer'),
      AGE,
    ]),
    definition('RestoreWindow', 'restorewindows', 'ghrw', restoreWindowSchema, [
      wideColumn('Source', '.spec.source.ref.name'),
      column('Phase', '.status.phase'),
      column('Violations', '.status.violations.total', 'integer'),
      wideColumn('Relinked', '.status.relink.linked', 'integer'),
      column('Expires', '.spec.expiresAt'),
      wideColumn('Reason', '.spec.reason'),
      AGE,
    ]),
    definition('UniqueClaim', 'uniqueclaims', 'ghuc', uniqueClaimSchema, [
      column('Policy', '.spec.policy'),
      column('Rule', '.spec.rule'),
      column('Values', '.spec.values'),
      column('Namespace', '.spec.holder.namespace'),
      column('Holder', '.spec.holder.name'),
      wideColumn('Claimed', '.spec.claimedAt'),
      AGE,
    ]),
  ];
}

function definition(
  kind: string,
  plural: string,
  shortName: string,
  schema: TObject,
  columns: readonly ReturnType<typeof column>[],
  scope: 'Cluster' | 'Namespaced' = 'Cluster',
): { readonly name: string; readonly manifest: object } {
  const common = { apiVersion: { type: 'string' }, kind: { type: 'string' }, metadata: { type: 'object' } };
  const version = {
    name: VERSION,
    served: true,
    storage: true,
    ...('status' in schema.properties ? { subresources: { status: {} } } : {}),
    additionalPrinterColumns: columns,
    schema: { openAPIV3Schema: { ...schema, properties: { ...common, ...schema.properties } } },
  };
  const names = {
    kind,
    listKind: `${kind}List`,
    plural,
    singular: kind.toLowerCase(),
    shortNames: [shortName],
    categories: ['gatehouse'],
  };
  const manifest = {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: {
      name: `${plural}.${GROUP}`,
      labels: { 'app.kubernetes.io/name': 'gatehouse', 'app.kubernetes.io/part-of': 'gatehouse' },
    },
    spec: { group: GROUP, scope, names, versions: [version] },
  };
  return { name: plural, manifest };
}
