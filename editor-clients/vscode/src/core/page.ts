/** The statistics page in the editor's colours. */

/** The page asks the system whether it is dark; inside the editor its theme decides. */
export function inTheme(html: string, isDark: boolean): string {
  return html.replaceAll('(prefers-color-scheme: dark)', isDark ? 'all' : 'not all');
}
