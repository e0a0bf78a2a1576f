"""Run the `posattn` command with `python -m fairseq_posattn SUBCOMMAND`."""

from fairseq_posattn.cli.main import main

if __name__ == "__main__":
    main()
