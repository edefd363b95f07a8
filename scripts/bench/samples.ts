/** The value of one line in the Prometheus text format. `series` includes the labels, as written in the line. */
export function sampleOf(metrics: string, series: string): number | undefined {
  const line = metrics.split('\n').find((one) => one.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.slice(series.length + 1));
}
