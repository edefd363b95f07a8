/** The CustomResourceDefinitions of Gatehouse, made from the schemas in this folder. */
import type { TSchema } from 'typebox';

import { admissionPolicySchema } from './admission-policy.ts';
import { conversionPolicySchema } from './conversion-policy.ts';
import { GROUP, VERSION } from './group.ts';
import { restoreDetectorSchema } from './restore-detector.ts';
import { restoreReportSchema } from './restore-report.ts';
import { restoreWindowSchema } from './restore-window.ts';
import { uniqueClaimSchema } from './unique-claim.ts';

interface PrinterColumn {
  readonly name: string;
  readonly type: 'string' | 'integer' | 'date';
  readonly jsonPath: string;
  readonly priority?: number;
}

interface Definition {
  readonly kind: string;
  readonly plural: string;
  readonly shortNames: readonly string[];
  readonly schema: TSchema & {
    readonly properties: Record<string, unknown>;
    readonly required?: readonly string[];
  };
  readonly columns: readonly PrinterColumn[];
}

const AGE: PrinterColumn = { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' };

const condition = (type: string, field: 'status' | 'reason' | 'message') =>
  `.status.conditions[?(@.type=="${type}")].${field}`;

const definitions: readonly Definition[] = [
  {
    kind: 'AdmissionPolicy',
    plural: 'admissionpolicies',
    shortNames: ['ap'],
    schema: admissionPolicySchema,
    columns: [
      { name: 'Ready', type: 'string', jsonPath: condition('Ready', 'status') },
      { name: 'Reason', type: 'string', jsonPath: condition('Ready', 'reason') },
      { name: 'Installed', type: 'string', jsonPath: condition('WebhooksInstalled', 'status') },
      AGE,
    ],
  },
  {
    kind: 'ConversionPolicy',
    plural: 'conversionpolicies',
    shortNames: ['cp'],
    schema: conversionPolicySchema,
    columns: [
      { name: 'Resource', type: 'string', jsonPath: '.spec.target.resource' },
      { name: 'Group', type: 'string', jsonPath: '.spec.target.apiGroup' },
      { name: 'Hub', type: 'string', jsonPath: '.spec.hub' },
      { name: 'Ready', type: 'string', jsonPath: condition('Ready', 'status') },
      { name: 'Reason', type: 'string', jsonPath: condition('Ready', 'reason') },
      { name: 'Installed', type: 'string', jsonPath: condition('Installed', 'status') },
      AGE,
    ],
  },
  {
    kind: 'RestoreDetector',
    plural: 'restoredetectors',
    shortNames: ['rd'],
    schema: restoreDetectorSchema,
    columns: [
      { name: 'Resource', type: 'string', jsonPath: '.spec.watch.resource' },
      { name: 'Group', type: 'string', jsonPath: '.spec.watch.apiGroup' },
      { name: 'Namespaces', type: 'string', jsonPath: '.spec.namespaces' },
      { name: 'Ready', type: 'string', jsonPath: condition('Ready', 'status') },
      { name: 'Reason', type: 'string', jsonPath: condition('Ready', 'reason') },
      { name: 'Active', type: 'integer', jsonPath: '.status.active' },
      AGE,
    ],
  },
  {
    kind: 'RestoreReport',
    plural: 'restorereports',
    shortNames: ['rr'],
    schema: restoreReportSchema,
    columns: [
      { name: 'Window', type: 'string', jsonPath: '.spec.window' },
      { name: 'Part', type: 'integer', jsonPath: '.spec.part' },
      { name: 'Parts', type: 'integer', jsonPath: '.spec.parts' },
      AGE,
    ],
  },
  {
    kind: 'RestoreWindow',
    plural: 'restorewindows',
    shortNames: ['rw'],
    schema: restoreWindowSchema,
    columns: [
      { name: 'Source', type: 'string', jsonPath: '.spec.source.ref.name', priority: 1 },
      { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
      { name: 'Violations', type: 'integer', jsonPath: '.status.violations.total' },
      { name: 'Relinked', type: 'integer', jsonPath: '.status.relink.linked', priority: 1 },
      { name: 'Expires', type: 'string', jsonPath: '.spec.expiresAt' },
      { name: 'Reason', type: 'string', jsonPath: '.spec.reason', priority: 1 },
      AGE,
    ],
  },
  {
    kind: 'UniqueClaim',
    plural: 'uniqueclaims',
    shortNames: ['uc'],
    schema: uniqueClaimSchema,
    columns: [
      { name: 'Policy', type: 'string', jsonPath: '.spec.policy' },
      { name: 'Rule', type: 'string', jsonPath: '.spec.rule' },
      { name: 'Values', type: 'string', jsonPath: '.spec.values' },
      { name: 'Namespace', type: 'string', jsonPath: '.spec.holder.namespace' },
      { name: 'Holder', type: 'string', jsonPath: '.spec.holder.name' },
      { name: 'Claimed', type: 'date', jsonPath: '.spec.claimedAt' },
    ],
  },
];

/** As plain JSON, in the order in which they are written to `deploy/base/crds`. */
export function customResourceDefinitions(): readonly { readonly name: string; readonly manifest: object }[] {
  return definitions.map((definition) => ({ name: definition.plural, manifest: toManifest(definition) }));
}

function toManifest({ kind, plural, shortNames, schema, columns }: Definition): object {
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${GROUP}`, labels: { 'app.kubernetes.io/name': 'gatehouse' } },
    spec: {
      group: GROUP,
      scope: 'Cluster',
      names: {
        kind,
        listKind: `${kind}List`,
        plural,
        singular: kind.toLowerCase(),
        shortNames,
        categories: ['gatehouse'],
      },
      versions: [
        {
          name: VERSION,
          served: true,
          storage: true,
          ...('status' in schema.properties ? { subresources: { status: {} } } : {}),
          additionalPrinterColumns: columns,
          schema: {
            openAPIV3Schema: {
              ...schema,
              properties: {
                apiVersion: { type: 'string' },
                kind: { type: 'string' },
                metadata: { type: 'object' },
                ...schema.properties,
              },
            },
          },
        },
      ],
    },
  };
}
