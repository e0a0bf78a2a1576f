"""Let `python -m fairseq_posattn SUBCOMMAND` run the command `posattn`."""

from fairseq_posattn.cli.main import main

if __name__ == "__main__":
    main()
