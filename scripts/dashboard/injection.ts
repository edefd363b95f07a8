import { highest, of, type Row } from './panel.ts';

export const injection: Row = {
  title: 'CA bundles in other objects',
  panels: [
    {
      title: 'Targets by state',
      description: 'Every target without injection has an Event with the reason.',
      unit: 'short',
      queries: [
        { expr: highest('kind, state', 'gatehouse_cabundle_targets'), legend: '{{kind}}: {{state}}' },
        {
          expr: `${highest('kind', 'gatehouse_cabundle_unreadable_kinds')} == 1`,
          legend: '{{kind}}: cannot be listed',
        },
      ],
    },
    {
      title: 'Longest wait for a bundle',
      description: 'Calls to this webhook fail until it has the bundle.',
      unit: 's',
      queries: [{ expr: `max(${of('gatehouse_cabundle_stale_seconds')})`, legend: 'stale' }],
    },
  ],
};
