import { highest, of, type Row } from './panel.ts';

export const injection: Row = {
  title: 'CA bundles in other objects',
  panels: [
    {
      title: 'Targets by state',
      description: 'Whatever is not injected has an Event that says why.',
      unit: 'short',
      queries: [
        { expr: highest('kind, state', 'gatehouse_cabundle_targets'), legend: '{{kind}}: {{state}}' },
      ],
    },
    {
      title: 'Waiting longest for its bundle',
      description: 'Calls to that webhook fail meanwhile.',
      unit: 's',
      queries: [{ expr: `max(${of('gatehouse_cabundle_stale_seconds')})`, legend: 'stale' }],
    },
  ],
};
