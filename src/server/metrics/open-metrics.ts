/** OpenMetrics with exemplars. prom-client's own writer strips the suffix of counter names from later plain-text scrapes. */
import { Registry, type MetricObjectWithValues, type MetricValueWithName } from 'prom-client';

export const OPEN_METRICS = Registry.OPENMETRICS_CONTENT_TYPE;

export function prefersOpenMetrics(accept: string | undefined): boolean {
  const wanted = (type: string) =>
    Math.max(0, ...(accept ?? '').split(',').map((part) => weightOf(part, type)));
  const open = wanted('application/openmetrics-text');
  return open > 0 && open >= wanted('text/plain');
}

function weightOf(entry: string, type: string): number {
  const [name = '', ...parameters] = entry.split(';').map((part) => part.trim().toLowerCase());
  if (name !== type) return 0;
  const quality = parameters.find((one) => one.startsWith('q='));
  return quality === undefined ? 1 : Number(quality.slice(2)) || 0;
}

interface Exemplar {
  readonly labelSet: Readonly<Record<string, string | number>>;
  readonly value: number;
  readonly timestamp: number;
}

type Value = MetricValueWithName<string> & { readonly exemplar?: Exemplar | null };

export async function openMetricsText(registry: Registry): Promise<string> {
  // The declared type lacks the exemplars.
  const families = (await registry.getMetricsAsJSON()) as unknown as readonly MetricObjectWithValues<Value>[];
  return `${families.map(familyText).join('')}# EOF\n`;
}

function familyText({ name, help, type, values }: MetricObjectWithValues<Value>): string {
  // The declared type is an enum, but the value is a string.
  const isCounter = String(type) === 'counter';
  const family = isCounter ? name.replace(/_total$/, '') : name;
  const samples = values.map(({ metricName, labels, value, exemplar }) => {
    const sample = isCounter ? `${family}_total` : (metricName ?? name);
    return `${sample}${labelsText(labels)} ${numberText(value)}${exemplarText(exemplar)}\n`;
  });
  return `# HELP ${family} ${escaped(help)}\n# TYPE ${family} ${String(type)}\n${samples.join('')}`;
}

function exemplarText(exemplar: Exemplar | null | undefined): string {
  if (exemplar === null || exemplar === undefined || Object.keys(exemplar.labelSet).length === 0) return '';
  const labels = labelsText(exemplar.labelSet);
  return ` # ${labels} ${numberText(exemplar.value)} ${exemplar.timestamp}`;
}

function labelsText(labels: Readonly<Record<string, string | number | undefined>>): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(String(value))}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

const escaped = (text: string): string =>
  text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"');

function numberText(value: number): string {
  if (Number.isNaN(value)) return 'NaN';
  if (Number.isFinite(value)) return String(value);
  return value > 0 ? '+Inf' : '-Inf';
}
