import { admission } from './dashboard/admission.ts';
import { certificates } from './dashboard/certificates.ts';
import { injection } from './dashboard/injection.ts';
import { machinery } from './dashboard/machinery.ts';
import type { Panel, Row } from './dashboard/panel.ts';
import { policies } from './dashboard/policies.ts';

export const ROWS: readonly Row[] = [admission, certificates, injection, policies, machinery];

/** Grafana's grid has 24 columns. */
const PANEL = { w: 8, h: 8 };
const PANELS_IN_LINE = 3;

const DATASOURCE = { type: 'prometheus', uid: '${datasource}' };

export function renderDashboard(): string {
  const dashboard = {
    uid: 'gatehouse',
    title: 'Gatehouse',
    description: 'Admission, certificates and restores. Generated from scripts/dashboard.',
    tags: ['gatehouse', 'kubernetes'],
    schemaVersion: 39,
    editable: true,
    refresh: '30s',
    time: { from: 'now-6h', to: 'now' },
    templating: { list: [datasourceVariable(), jobVariable()] },
    panels: placed(ROWS),
  };
  return `${JSON.stringify(dashboard, undefined, 2)}\n`;
}

const datasourceVariable = () => ({
  name: 'datasource',
  label: 'Data source',
  type: 'datasource',
  query: 'prometheus',
});

const jobVariable = () => ({
  name: 'job',
  label: 'Job',
  type: 'query',
  datasource: DATASOURCE,
  query: { query: 'label_values(gatehouse_admission_reviews_in_flight, job)', refId: 'job' },
  refresh: 2,
  multi: true,
  includeAll: true,
});

/** Stacks the rows, and places the panels of each row in lines. IDs start at 1. */
function placed(rows: readonly Row[]): readonly object[] {
  const panels: object[] = [];
  let y = 0;
  for (const row of rows) {
    const gridPos = { x: 0, y, w: PANELS_IN_LINE * PANEL.w, h: 1 };
    panels.push({
      id: panels.length + 1,
      type: 'row',
      title: row.title,
      collapsed: false,
      gridPos,
      panels: [],
    });
    for (const [index, panel] of row.panels.entries()) {
      const x = (index % PANELS_IN_LINE) * PANEL.w;
      const line = Math.floor(index / PANELS_IN_LINE);
      panels.push(timeSeries(panel, panels.length + 1, { ...PANEL, x, y: y + 1 + line * PANEL.h }));
    }
    y += 1 + Math.ceil(row.panels.length / PANELS_IN_LINE) * PANEL.h;
  }
  return panels;
}

const timeSeries = ({ title, description, unit, queries }: Panel, id: number, gridPos: object) => ({
  id,
  type: 'timeseries',
  title,
  description,
  datasource: DATASOURCE,
  gridPos,
  fieldConfig: { defaults: { unit, min: unit === 's' ? undefined : 0 }, overrides: [] },
  options: { legend: { displayMode: 'list', placement: 'bottom' }, tooltip: { mode: 'multi', sort: 'desc' } },
  targets: Object.entries(queries).map(([legend, expr], index) => ({
    refId: String.fromCharCode('A'.charCodeAt(0) + index),
    datasource: DATASOURCE,
    expr,
    legendFormat: legend,
  })),
});
