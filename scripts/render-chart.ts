import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { customResourceDefinitions } from '../src/api/crds.ts';
import type { KubeObject } from '../src/json/kube-object.ts';
import { editsOf } from './chart/edits.ts';
import { toTemplate } from './chart/holes.ts';
import { readParts, type Part } from './chart/parts.ts';
import type { Definition } from './reference/kind.ts';
import { renderValues, renderValuesPage, renderValuesSchema } from './chart/values-file.ts';
import { chartValues, type BaseDefaults } from './chart/values.ts';
import { toYaml } from '../src/cli/terminal/output.ts';

const HEADER = '{{- /* Generated from deploy/ by `npm run generate`. Do not edit. */ -}}\n';

export interface GeneratedFile {
  readonly path: string;
  readonly text: string;
}

const CHART = 'deploy/chart/gatehouse';

/** Without the notes and helpers, with the page about the values. @throws Error when the chart does not support the base */
export function renderChart(root: string): readonly GeneratedFile[] {
  const parts = readParts(join(root, 'deploy'));
  const values = chartValues(defaultsOf(parts));
  return [
    { path: `${CHART}/Chart.yaml`, text: renderChartFile(root) },
    { path: `${CHART}/values.yaml`, text: renderValues(values) },
    { path: `${CHART}/values.schema.json`, text: renderValuesSchema(values) },
    { path: 'docs/reference/helm-values.md', text: renderValuesPage(values) },
    ...parts.map(({ object, condition }) => ({
      path: `${CHART}/templates/${fileName(object)}`,
      text: HEADER + guarded(toTemplate(object, editsOf(object)), condition),
    })),
  ];
}

/** @see https://artifacthub.io/docs/topics/annotations/helm */
function renderChartFile(root: string): string {
  const { version, description, license } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    readonly version: string;
    readonly description: string;
    readonly license: string;
  }; // our own file
  const chart = {
    apiVersion: 'v2',
    name: 'gatehouse',
    description,
    type: 'application',
    version,
    appVersion: version,
    kubeVersion: '>=1.30.0-0',
    keywords: ['admission', 'webhook', 'certificates', 'restore'],
    maintainers: [{ name: 'The Gatehouse maintainers' }],
    annotations: {
      'artifacthub.io/category': 'security',
      'artifacthub.io/license': license,
      'artifacthub.io/prerelease': String(version.includes('-')),
      'artifacthub.io/crds': toYaml(crdsOf(), { lineWidth: 0 }),
      // A release writes its digest here: scripts/release-files.ts.
      'artifacthub.io/images': toYaml([{ name: 'gatehouse', image: `gatehouse:${version}` }]),
    },
  };
  return `# Generated from package.json by \`npm run generate\`. Do not edit.\n${toYaml(chart, { lineWidth: 0 })}`;
}

const crdsOf = () =>
  customResourceDefinitions().map(({ name, manifest }) => {
    // Through JSON: drops the internal markers of TypeBox.
    const { spec } = JSON.parse(JSON.stringify(manifest)) as Definition; // made from src/api
    const { name: version = '', schema } = spec.versions[0] ?? {};
    return {
      kind: spec.names.kind,
      version,
      name: `${name}.${spec.group}`,
      displayName: spec.names.kind,
      description: schema?.openAPIV3Schema.description ?? '',
    };
  });

const guarded = (text: string, condition: string | undefined): string =>
  condition === undefined ? text : `{{- if ${condition} }}\n${text}{{- end }}\n`;

function fileName({ kind = '', metadata }: KubeObject): string {
  const name = metadata?.name ?? '';
  if (kind === 'CustomResourceDefinition') return `crds/${name.replace('.gatehouse.dev', '')}.yaml`;
  const kebab = kind.replaceAll(/(?<=[a-z])[A-Z]/g, (letter) => `-${letter}`).toLowerCase();
  return name === 'gatehouse' ? `${kebab}.yaml` : `${kebab}-${name.replace('gatehouse-', '')}.yaml`;
}

/** Reads the defaults of the chart from the base. @throws Error when the base lacks one */
function defaultsOf(parts: readonly Part[]): BaseDefaults {
  const at = (kind: string, name: string, ...path: readonly (string | number)[]): unknown => {
    const isAsked = ({ object }: Part) => object.kind === kind && object.metadata?.name === name;
    const object: unknown = parts.find(isAsked)?.object;
    const found = path.reduce(
      (value, key) => (value as Record<string | number, unknown> | undefined)?.[key],
      object,
    ); // undefined ends the path
    if (found === undefined) throw new Error(`deploy/: ${kind} ${name} has no ${path.join('.')}`);
    return found;
  };
  const pod = ['spec', 'template', 'spec'];
  const sized = (name: string) => ({
    replicas: Number(at('Deployment', name, 'spec', 'replicas')),
    topologySpreadConstraints: at('Deployment', name, ...pod, 'topologySpreadConstraints'),
    resources: at('Deployment', name, ...pod, 'containers', 0, 'resources'),
  });
  const [webhook, controllers] = ['gatehouse-webhook', 'gatehouse-controllers'] as const;
  const rehearsal = (...path: readonly (string | number)[]) =>
    at('CronJob', 'gatehouse-restore-rehearsal', 'spec', ...path);
  const rehearsing = ['jobTemplate', ...pod];
  const image = String(at('Deployment', webhook, ...pod, 'containers', 0, 'image'));
  return {
    image: image.slice(0, image.lastIndexOf(':')),
    ...sized(webhook),
    controllers: sized(controllers),
    strategy: at('Deployment', webhook, 'spec', 'strategy'),
    priorityClassName: String(at('Deployment', webhook, ...pod, 'priorityClassName')),
    minAvailable: Number(at('PodDisruptionBudget', 'gatehouse', 'spec', 'minAvailable')),
    metricsFrom: at('NetworkPolicy', 'gatehouse', 'spec', 'ingress', 1, 'from'),
    rehearsal: {
      schedule: String(rehearsal('schedule')),
      claimName: String(rehearsal(...rehearsing, 'volumes', 0, 'persistentVolumeClaim', 'claimName')),
      resources: rehearsal(...rehearsing, 'containers', 0, 'resources'),
    },
  };
}
